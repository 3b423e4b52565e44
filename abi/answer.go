package abi

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Span takes an answer of ptr<<32|len apart.
func Span(result uint64) (ptr, size uint32) { return uint32(result >> 32), uint32(result) }

// PodAnswer is what berth_pod said.
type PodAnswer struct {
	Ask Ask
	// Reason is the index of the reason with AskRefuse.
	Reason uint32
}

// ReadPodAnswer reads what berth_pod answered. The index still has to be
// looked up in the table of reasons, which may not have it.
func ReadPodAnswer(result uint64) (PodAnswer, error) {
	a := PodAnswer{Ask: Ask(result), Reason: uint32(result >> 8)}
	switch a.Ask {
	case AskRows, AskSkip:
		return PodAnswer{Ask: a.Ask}, nil
	case AskRefuse:
		if a.Reason == 0 || a.Reason > MaxReasons {
			return PodAnswer{}, fmt.Errorf("berth_pod refused with reason %d, want 1 to %d", a.Reason, MaxReasons)
		}
		return a, nil
	case AskError:
		return PodAnswer{}, ErrGuest
	}
	return PodAnswer{}, fmt.Errorf("berth_pod answered %d, which is neither Rows, Skip nor Refuse", a.Ask)
}

// ErrGuest says that the guest reported a failure; berth_error has its text.
var ErrGuest = fmt.Errorf("the guest reported a failure")

// ReadVerdicts checks the verdicts of n rows: each is 0 or the index of a
// reason. The result shares b's memory.
func ReadVerdicts(b []byte, n int) ([]byte, error) {
	if len(b) != n {
		return nil, fmt.Errorf("%d verdicts for %d rows", len(b), n)
	}
	return b, nil
}

// ReadScores reads the scores of len(into) rows, each clamped to ±MaxScore.
func ReadScores(b []byte, into []int64) error {
	if len(b) != 8*len(into) {
		return fmt.Errorf("%d bytes of scores for %d rows, want %d", len(b), len(into), 8*len(into))
	}
	for i := range into {
		into[i] = clamp(int64(binary.LittleEndian.Uint64(b[8*i:])))
	}
	return nil
}

func clamp(s int64) int64 { return min(max(s, -MaxScore), MaxScore) }

// Reason is one entry of a guest's table of reasons.
type Reason struct {
	Text string `json:"text"`
	// Final: removing pods from the node would not help.
	Final bool `json:"final,omitempty"`
}

// ReadReasons reads the table of reasons from some index on, or what
// berth_explain answered. Texts are cut and made valid.
func ReadReasons(b []byte) ([]Reason, error) {
	var list []Reason
	if err := readJSON(b, MaxAnswer, &list); err != nil {
		return nil, fmt.Errorf("reasons: %w", err)
	}
	if len(list) > MaxReasons {
		return nil, fmt.Errorf("reasons: %d, at most %d are allowed", len(list), MaxReasons)
	}
	for i := range list {
		if list[i].Text = Text(list[i].Text, MaxReason); list[i].Text == "" {
			list[i].Text = "refused without a reason"
		}
	}
	return list, nil
}

// Text makes foreign text fit for events and logs: valid UTF-8 of at most max
// bytes in one line.
func Text(s string, max int) string {
	if len(s) > max {
		s = s[:max]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	for len(s) > max {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

// Readiness is a gate's answer for one pod.
type Readiness struct {
	// Status is True, False or Unknown.
	Status            string `json:"status"`
	Reason            string `json:"reason,omitempty"`
	Message           string `json:"message,omitempty"`
	RequeueAfterNanos int64  `json:"requeueAfterNanos,omitempty"`
}

// ReadReadiness reads a gate's answers for n pods.
func ReadReadiness(b []byte, n int) ([]Readiness, error) {
	var list []Readiness
	if err := readJSON(b, MaxAnswer, &list); err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	if len(list) != n {
		return nil, fmt.Errorf("gate: %d answers for %d pods", len(list), n)
	}
	for i := range list {
		r := &list[i]
		if r.Status != "True" && r.Status != "False" && r.Status != "Unknown" {
			return nil, fmt.Errorf("gate: status %.32q of pod %d is neither True, False nor Unknown", r.Status, i)
		}
		if r.RequeueAfterNanos < 0 {
			return nil, fmt.Errorf("gate: pod %d: requeueAfterNanos is negative", i)
		}
		r.Reason, r.Message = Text(r.Reason, MaxReason), Text(r.Message, MaxText)
	}
	return list, nil
}

// Limits of a controller's answer.
const (
	MaxCreations = 10000
	MaxNamed     = 100000
	MaxEvents    = 64
)

// ReconcileResult is a controller's answer. All of it is stored together, or
// nothing.
type ReconcileResult struct {
	// Status replaces the parent's; none leaves it.
	Status json.RawMessage `json:"status,omitempty"`
	Create []Creation      `json:"create,omitempty"`
	Patch  []Patch         `json:"patch,omitempty"`
	Delete []Deletion      `json:"delete,omitempty"`
	// Adopt and Release name children by UID.
	Adopt             []string `json:"adopt,omitempty"`
	Release           []string `json:"release,omitempty"`
	Events            []Event  `json:"events,omitempty"`
	RequeueAfterNanos int64    `json:"requeueAfterNanos,omitempty"`
	// Step says that there is more to do of the state that the answer makes: it is
	// one of several. Any other answer asks for nothing of its own result.
	Step bool `json:"step,omitempty"`
	// Why says in sentences what the parent waits for.
	Why []string `json:"why,omitempty"`
	// Memory is what the guest wants to be told in the next question about the
	// parent, as FactMemory; none leaves what there is.
	Memory json.RawMessage `json:"memory,omitempty"`
}

// Creation is an object to create Count times.
type Creation struct {
	Count int64 `json:"count"`
	// From is the parent's field with a pod template or a job template that the
	// host begins with; Object is then a JSON merge patch of it.
	From   string          `json:"from,omitempty"`
	Object json.RawMessage `json:"object,omitempty"`
	// Each are merge patches of that, one an object, in place of Count.
	Each []json.RawMessage `json:"each,omitempty"`
	// Unowned objects have no owner reference to the parent, save one in Object.
	Unowned bool `json:"unowned,omitempty"`
	// Quiet: the host writes no event SuccessfulCreate.
	Quiet bool `json:"quiet,omitempty"`
	// Success is the message of the event SuccessfulCreate, and Failure what
	// FailedCreate says before it says what was refused; the host has words of its
	// own where they are empty, and is silent of the success of a fixed name.
	Success string `json:"success,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// Patch is a JSON merge patch of an object that the guest was given.
type Patch struct {
	UID   string          `json:"uid"`
	Patch json.RawMessage `json:"patch"`
	// Subresource is empty, status or scale.
	Subresource string `json:"subresource,omitempty"`
}

// Deletion takes away an object that the guest was given.
type Deletion struct {
	UID                string `json:"uid"`
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
	// PropagationPolicy is Background where it is empty, Foreground or Orphan.
	PropagationPolicy string `json:"propagationPolicy,omitempty"`
	// Quiet: the host writes no event SuccessfulDelete.
	Quiet bool `json:"quiet,omitempty"`
	// Success is that event's message; the host has one where it is empty.
	Success string `json:"success,omitempty"`
}

// Event is one event on the parent, or on the object whose UID is in About.
type Event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	About   string `json:"about,omitempty"`
}

// ReadReconcileResult reads what berth_reconcile answered. Whether the objects are of
// the declared kinds is for the caller to check.
func ReadReconcileResult(b []byte) (*ReconcileResult, error) {
	o := &ReconcileResult{}
	if err := readJSON(b, MaxAnswer, o); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	if len(o.Delete)+len(o.Adopt)+len(o.Release)+len(o.Patch) > MaxNamed || len(o.Events) > MaxEvents || len(o.Why) > MaxEvents {
		return nil, fmt.Errorf("reconcile: at most %d objects may be named, and %d events and sentences of why", MaxNamed, MaxEvents)
	}
	if len(o.Memory) > MaxMemory {
		return nil, fmt.Errorf("reconcile: %d bytes of memory, at most %d are kept", len(o.Memory), MaxMemory)
	}
	if o.RequeueAfterNanos < 0 {
		return nil, fmt.Errorf("reconcile: requeueAfterNanos is negative")
	}
	if err := o.checkWrites(); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	for i := range o.Why {
		o.Why[i] = Text(o.Why[i], MaxText)
	}
	for i := range o.Events {
		e := &o.Events[i]
		if e.Type != "Warning" {
			e.Type = "Normal"
		}
		e.Reason, e.Message = Text(e.Reason, MaxReason), Text(e.Message, MaxText)
	}
	return o, nil
}

func (o *ReconcileResult) checkWrites() error {
	if err := o.checkCreations(); err != nil {
		return err
	}
	for _, p := range o.Patch {
		if p.UID == "" || len(p.Patch) == 0 || p.Subresource != "" && p.Subresource != "status" && p.Subresource != "scale" {
			return errors.New("a patch needs a uid, a patch, and no subresource but status and scale")
		}
	}
	return o.checkDeletions()
}

func (o *ReconcileResult) checkCreations() error {
	var total int64
	for i, c := range o.Create {
		if len(c.Each) > 0 {
			c.Count = int64(len(c.Each))
			o.Create[i].Count = c.Count
		}
		if c.Count < 0 || c.Count > MaxCreations || len(c.Object) == 0 && c.From == "" {
			return fmt.Errorf("a creation of %d objects, want 0 to %d, and an object", c.Count, MaxCreations)
		}
		if total += c.Count; total > MaxCreations {
			return fmt.Errorf("more than %d creations", MaxCreations)
		}
		o.Create[i].Success, o.Create[i].Failure = Text(c.Success, MaxText), Text(c.Failure, MaxText)
	}
	return nil
}

func (o *ReconcileResult) checkDeletions() error {
	for i, d := range o.Delete {
		o.Delete[i].Success = Text(d.Success, MaxText)
		if d.GracePeriodSeconds != nil && *d.GracePeriodSeconds < 0 {
			return errors.New("gracePeriodSeconds of a deletion is negative")
		}
		switch d.PropagationPolicy {
		case "", "Background", "Foreground", "Orphan":
		default:
			return fmt.Errorf("propagationPolicy %.32q is none of Background, Foreground, Orphan", d.PropagationPolicy)
		}
	}
	return nil
}

// OpenConfig is what berth_open is given.
type OpenConfig struct {
	Policy string          `json:"policy"`
	Config json.RawMessage `json:"config,omitempty"`
}
