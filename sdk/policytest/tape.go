package policytest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/abi"
)

// Folder is the environment variable that names the folder of recordings.
const Folder = "BERTH_POLICYTEST"

// Call is one call of an export, with the answer that it gave natively.
type Call struct {
	Export string `json:"export"`
	// About is what is asked: the case, and the node.
	About string `json:"about,omitempty"`
	In    []byte `json:"in,omitempty"`
	// Out is the answer of an export that gives a range, Packed that of berth_pod.
	Out    []byte `json:"out,omitempty"`
	Packed uint64 `json:"packed,omitempty"`
}

// tape records calls, if there is a folder for it.
type tape struct {
	path  string
	about string // what is asked now
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
		c.About = t.about
		t.calls = append(t.calls, c)
	}
}

// asks says what the next calls are about.
func (t *tape) asks(name string, further ...string) {
	t.about = strings.Join(append([]string{"case " + strconv.Quote(name)}, further...), ", ")
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
	for _, c := range calls {
		out, packed, err := guest(c.Export, c.In)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		if !bytes.Equal(out, c.Out) || packed != c.Packed {
			return fmt.Errorf("%s: as wasm it answers %s, natively %s", c.name(), c.shown(out, packed), c.shown(c.Out, c.Packed))
		}
	}
	return nil
}

func (c *Call) name() string {
	if c.About == "" {
		return c.Export
	}
	return c.About + ": " + c.Export
}

// shown is an answer as people read it.
func (c *Call) shown(out []byte, packed uint64) string {
	switch {
	case c.Export == abi.FuncPod:
		return strconv.FormatUint(packed, 10)
	case c.Export == abi.FuncFilter && len(out) == 1 && out[0] == 0:
		return "that it admits"
	case c.Export == abi.FuncFilter && len(out) == 1:
		return fmt.Sprintf("reason %d", out[0])
	case c.Export == abi.FuncScore && len(out) == 8:
		return strconv.FormatInt(int64(binary.LittleEndian.Uint64(out)), 10)
	}
	return string(out)
}
