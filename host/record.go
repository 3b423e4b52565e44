package host

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	questions "github.com/berth-dev/berth/host/controller/record"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/record"
)

// The log of what controllers are asked may take a part of what the log of
// decisions may, beside that.
const (
	defaultLogBytes = 256 << 20
	questionShare   = 8
)

// recorders write on disk what was decided, and what controllers were asked.
type recorders struct {
	decisions *record.Writer
	questions *questions.Writer
	// archiving is held while a policy is kept: both write the same files.
	archiving sync.Mutex
}

// openRecord begins to record, if that is wanted.
func (h *Host) openRecord() error {
	h.questions = questions.New(cmp.Or(h.LogBytes, defaultLogBytes) / questionShare)
	if h.Record == "" {
		return nil
	}
	decisions, err := record.Open(h.Record)
	if err != nil {
		return err
	}
	asked, err := questions.Open(h.Record)
	if err != nil {
		return err
	}
	decisions.Deciding, decisions.Log = h.archive, h.Log
	asked.Answering, asked.Log = h.archiveOne, h.Log
	h.questions.Disk = asked
	h.recorders = &recorders{decisions: decisions, questions: asked}
	return nil
}

// recording tells how the recording fares; all is 0 without one.
func (h *Host) recording() (failing bool, decisions, questions uint64) {
	r := h.recorders
	if r == nil {
		return false, 0, 0
	}
	return r.decisions.Failing() || r.questions.Failing(), r.decisions.Lost(), r.questions.Lost()
}

// policyFile and moduleFile are where a recording keeps what decided.
func (h *Host) policyFile(identity [32]byte) string {
	return filepath.Join(h.Record, "policies", hex.EncodeToString(identity[:])+".json")
}

func (h *Host) moduleFile(name string) string {
	return filepath.Join(h.Record, "modules", filepath.Base(name)+".wasm")
}

// archive keeps the policies of a profile that decides.
func (h *Host) archive(ctx context.Context, d *framework.Digest) error {
	for i := range d.Policies {
		if d.Policies[i].Identity == [32]byte{} {
			continue // it could not be loaded, and answered nothing
		}
		if err := h.archiveOne(ctx, d.Policies[i].Name, d.Policies[i].Identity); err != nil {
			return err
		}
	}
	return nil
}

// archiveOne keeps a policy and its module.
func (h *Host) archiveOne(ctx context.Context, name string, identity [32]byte) error {
	h.recorders.archiving.Lock()
	defer h.recorders.archiving.Unlock()
	if _, err := os.Stat(h.policyFile(identity)); err == nil {
		return nil
	}
	object, wasm, err := h.loader.Provenance(ctx, identity)
	if err != nil {
		h.Log.Warn("policy is not recorded", "policy", name, "err", err)
		return nil
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	// The module comes first: whoever finds the policy finds it too.
	return errors.Join(keepFile(h.moduleFile(object.Spec.Module), wasm), keepFile(h.policyFile(identity), data))
}

// keepFile writes a file that is named by what it holds: one that is there
// already stays.
func keepFile(path string, data []byte) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// archived is what archive kept.
func (h *Host) archived(identity [32]byte) (*v1alpha1.Policy, []byte, error) {
	if h.Record == "" {
		return nil, nil, errors.New("what it was is forgotten: a host with --record keeps it")
	}
	data, err := os.ReadFile(h.policyFile(identity))
	if err != nil {
		return nil, nil, err
	}
	object := new(v1alpha1.Policy)
	if err := json.Unmarshal(data, object); err != nil {
		return nil, nil, err
	}
	wasm, err := os.ReadFile(h.moduleFile(object.Spec.Module))
	return object, wasm, err
}

// askedAgain puts a past question to the controller that answered it, or to a
// variation of that.
func (h *Host) askedAgain(ctx context.Context, about questions.About, v *trial.Variation) (was *questions.Question, again []byte, err error) {
	if was, err = h.questions.Find(about); errors.As(err, new(*questions.OutsideError)) && h.Record != "" {
		was, err = questions.Read(ctx, h.Record, about)
	}
	if err != nil {
		return nil, nil, err
	}
	if v == nil {
		again, err = h.loader.ReconcileAgain(ctx, was.Policy, was.Program, was.In)
		return was, again, err
	}
	other := *v
	other.Name = cmp.Or(other.Name, was.Policy)
	again, err = h.loader.ReconcileOther(ctx, &other, was.In)
	return was, again, err
}

// replayed derives a decision again, by the log in memory or by the recording.
func (h *Host) replayed(ctx context.Context, number uint64) (*explain.Replayed, error) {
	again, err := explain.Replay(ctx, h.scheduler, number)
	var outside *explain.OutsideError
	if h.recorders == nil || !errors.As(err, &outside) || outside.Number >= outside.Next {
		return again, err
	}
	trace, view, err := record.Read(h.Record, number)
	if errors.Is(err, record.ErrNone) {
		return nil, fmt.Errorf("decision %d: %w, and in no recording in %s", number, explain.ErrOutside, h.Record)
	}
	if err != nil {
		return nil, err
	}
	return explain.Again(ctx, h.scheduler, trace, view)
}
