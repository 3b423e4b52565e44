package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/sys"

	"github.com/berth-dev/berth/host/policy/vet"
)

// Kind says how a guest failed.
type Kind string

const (
	Trap       Kind = "Trap"       // it ran into a trap
	FuelSpent  Kind = "FuelSpent"  // its budget ended before it did
	StackSpent Kind = "StackSpent" // it recursed too deep
	BadAnswer  Kind = "BadAnswer"  // it answered what no answer can be
	Memory     Kind = "Memory"     // what it asks for lies outside of its memory
	Refused    Kind = "Refused"    // it cannot be run at all, or lacks the export
	Exited     Kind = "Exited"     // it ended itself
	Dead       Kind = "Dead"       // it failed before; Err has that failure
)

// Failure is a guest's fault, as a value.
type Failure struct {
	Digest string
	Export string
	Kind   Kind
	At     int32         // what the guest was at, as it says itself; -1 if unknown
	Fuel   Fuel          // spent in the failed call, as far as the guest had settled it
	Took   time.Duration // of the failed call
	Stack  []string      // the guest's functions, innermost first
	Err    error
}

func (f *Failure) Error() string {
	s := fmt.Sprintf("guest %s, %s: %s after %d units of fuel", short(f.Digest), f.Export, f.Kind, f.Fuel)
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	if len(f.Stack) > 0 {
		s += " in " + f.Stack[0]
	}
	return s
}

func (f *Failure) Unwrap() error { return f.Err }

// Format gives the stack too for %+v.
func (f *Failure) Format(s fmt.State, verb rune) {
	fmt.Fprint(s, f.Error())
	if verb == 'v' && s.Flag('+') {
		for _, frame := range f.Stack {
			fmt.Fprint(s, "\n\t", frame)
		}
	}
}

// Errors that are the caller's fault, not a guest's.
var (
	ErrBusy   = errors.New("the instance is in another call")
	ErrClosed = errors.New("the instance is closed")
)

func short(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(12, len(digest))]
}

const (
	maxFrames     = 32
	maxFrameBytes = 200
)

// meter is where a budget ends, which is called by the guest's own function.
const meter = vet.YieldModule + "." + vet.YieldName + "("

// explain takes wazero's error apart: what happened, and the guest's stack.
func explain(err error) (error, []frame) {
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("it exited with status %d", exit.ExitCode()), nil
	}
	text, trace, _ := strings.Cut(err.Error(), "wasm stack trace:")
	text = strings.TrimPrefix(strings.TrimSpace(text), "wasm error: ")
	text, _, _ = strings.Cut(text, " (recovered by wazero)")
	var stack []frame
	for line := range strings.SplitSeq(trace, "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), ".")
		if line == "" || len(stack) == 0 && strings.HasPrefix(line, meter) {
			continue
		}
		if at, ok := offsetOf(line); ok && len(stack) > 0 {
			stack[len(stack)-1].offset = at
			continue
		}
		if len(stack) == maxFrames {
			break
		}
		stack = append(stack, frame{clipFrame(line), -1})
	}
	return errors.New(plain(text)), stack
}
