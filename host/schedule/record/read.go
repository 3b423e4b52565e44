package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/host/journal"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// ErrNone says that a decision was not recorded.
var ErrNone = errors.New("the decision is not in the recording")

// Read finds a decision in the recording of dir, and the state that it was
// made from.
func Read(dir string, number uint64) (schedule.Trace, *snapshot.View, error) {
	dir = filepath.Join(dir, "decisions")
	file, err := fileOf(dir, number)
	if err != nil {
		return schedule.Trace{}, nil, err
	}
	var found *line
	prefix := fmt.Appendf(nil, `{"kind":%q,"number":%d,`, kindDecision, number)
	err = journal.Lines(file, func(data []byte) (bool, error) {
		if !bytes.HasPrefix(data, prefix) {
			return true, nil
		}
		found = new(line)
		return false, json.Unmarshal(data, found)
	})
	if err != nil {
		return schedule.Trace{}, nil, fmt.Errorf("decision %d: %w", number, err)
	}
	if found == nil {
		return schedule.Trace{}, nil, fmt.Errorf("decision %d: %w", number, ErrNone)
	}
	t, err := found.decision()
	if err != nil {
		return schedule.Trace{}, nil, err
	}
	view, err := state(file, t.Position)
	if err != nil {
		return schedule.Trace{}, nil, err
	}
	if err := found.Trace.beside(&t, view); err != nil {
		return schedule.Trace{}, nil, fmt.Errorf("the record of decision %d is broken: %w", number, err)
	}
	return t, view, nil
}

// state plays a file up to a position.
func state(file string, position uint64) (*snapshot.View, error) {
	past := snapshot.NewPast()
	decided := fmt.Appendf(nil, `{"kind":%q,`, kindDecision)
	err := journal.Lines(file, func(data []byte) (bool, error) {
		if bytes.HasPrefix(data, decided) {
			return true, nil
		}
		var l line
		if err := json.Unmarshal(data, &l); err != nil {
			return false, err
		}
		if l.Seq > position {
			return false, nil
		}
		return true, l.apply(past)
	})
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", filepath.Base(file), err)
	}
	return past.View(position), nil
}

func fileOf(dir string, number uint64) (string, error) {
	all, err := journal.Firsts(dir)
	if err != nil {
		return "", err
	}
	for _, first := range slices.Backward(all) {
		if first <= number {
			return journal.Path(dir, first), nil
		}
	}
	return "", fmt.Errorf("decision %d: %w", number, ErrNone)
}

// lastNumber is that of the newest decision in dir.
func lastNumber(dir string) (last uint64, ok bool, err error) {
	all, err := journal.Firsts(dir)
	if err != nil || len(all) == 0 {
		return 0, false, err
	}
	newest := all[len(all)-1]
	last, ok = newest-1, newest > 0
	prefix := fmt.Appendf(nil, `{"kind":%q,"number":`, kindDecision)
	err = journal.Lines(journal.Path(dir, newest), func(data []byte) (bool, error) {
		rest, is := bytes.CutPrefix(data, prefix)
		if !is {
			return true, nil
		}
		digits, _, _ := bytes.Cut(rest, []byte(","))
		if n, err := strconv.ParseUint(string(digits), 10, 64); err == nil {
			last, ok = n, true
		}
		return true, nil
	})
	return last, ok, err
}

// newObject makes an empty object of a kind.
func newObject(version, kind string) (snapshot.Object, error) {
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil, err
	}
	made, err := scheme.Scheme.New(gv.WithKind(kind))
	if err != nil {
		return nil, err
	}
	o, ok := made.(snapshot.Object)
	if !ok {
		return nil, fmt.Errorf("a %s is no object", kind)
	}
	return o, nil
}
