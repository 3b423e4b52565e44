package policytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// Folder is the environment variable that names the folder of recordings.
const Folder = "BERTH_POLICYTEST"

// Call is one call of an export, with the answer that it gave natively.
type Call struct {
	Export string `json:"export"`
	In     []byte `json:"in,omitempty"`
	// Out is the answer of an export that gives a range, Packed that of berth_pod.
	Out    []byte `json:"out,omitempty"`
	Packed uint64 `json:"packed,omitempty"`
}

// tape records calls, if there is a folder for it.
type tape struct {
	path  string
	calls []Call
}

func newTape(t *testing.T) *tape {
	dir := os.Getenv(Folder)
	if dir == "" {
		return &tape{}
	}
	f, err := os.CreateTemp(dir, strings.ReplaceAll(t.Name(), "/", "_")+"-*.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return &tape{path: f.Name()}
}

func (t *tape) add(c Call) {
	if t.path != "" {
		t.calls = append(t.calls, c)
	}
}

func (t *tape) status(export string, in []byte) { t.add(Call{Export: export, In: in}) }

func (t *tape) packed(export string, in []byte, packed uint64) {
	t.add(Call{Export: export, In: in, Packed: packed})
}

func (t *tape) bytes(export string, in, out []byte) {
	t.add(Call{Export: export, In: in, Out: bytes.Clone(out)})
}

func (t *tape) write() error {
	if t.path == "" {
		return nil
	}
	b, err := json.Marshal(t.calls)
	if err != nil {
		return err
	}
	return os.WriteFile(t.path, b, 0o644)
}

// Guest calls an export of an opened sandbox. A status is answered as packed.
type Guest func(export string, in []byte) (out []byte, packed uint64, err error)

// Replay reads a recording and asks a guest the same. The error names the first
// answer that differs.
func Replay(recording io.Reader, guest Guest) error {
	var calls []Call
	if err := json.NewDecoder(recording).Decode(&calls); err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	if len(calls) == 0 {
		return errors.New("the recording is empty")
	}
	for i, c := range calls {
		out, packed, err := guest(c.Export, c.In)
		if err != nil {
			return fmt.Errorf("call %d, %s: %w", i, c.Export, err)
		}
		if !bytes.Equal(out, c.Out) || packed != c.Packed {
			return fmt.Errorf("call %d, %s: as wasm it answers %v %d, natively %v %d", i, c.Export, out, packed, c.Out, c.Packed)
		}
	}
	return nil
}
