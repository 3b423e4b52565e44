package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// account is a counter that holds fuel outside of any guest.
type account struct {
	api.MutableGlobal
	left uint64
}

func (a *account) Get() uint64  { return a.left }
func (a *account) Set(v uint64) { a.left = v }

// FuzzImports calls each import as a guest may: with any numbers, over any
// memory. The host goes on, and says no more of it than its limits allow.
func FuzzImports(f *testing.F) {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	f.Cleanup(func() { _ = r.Close(ctx) })
	m, err := r.InstantiateWithConfig(ctx, wasmtest.Policy().Bytes(), wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		f.Fatal(err)
	}
	var all []string
	for module, functions := range vet.Imports {
		for name := range functions {
			all = append(all, module+"\x00"+name)
		}
	}
	slices.Sort(all)
	for i := range all {
		f.Add(uint8(i), []byte("8bytes of one vector"), uint64(1), uint64(0), uint64(1), uint64(16))
	}
	f.Fuzz(func(t *testing.T, which uint8, memory []byte, a, b, c, d uint64) {
		module, name, _ := strings.Cut(all[int(which)%len(all)], "\x00")
		m.Memory().Write(0, memory[:min(len(memory), vet.PageBytes)])
		lines := 0
		g := newGuest(OpenConfig{Log: func(_ slog.Level, s string) {
			if lines++; len(s) > maxLine || !utf8.ValidString(s) {
				t.Errorf("%s said %d bytes", name, len(s))
			}
		}})
		g.fuel = &account{left: 1 << 20}
		defer func() {
			if lines > linesPerCall+1 || len(g.line) > maxLine {
				t.Errorf("%s said %d lines and keeps %d bytes", name, lines, len(g.line))
			}
			switch ended := recover().(type) {
			case nil:
			case error:
				if !errors.Is(ended, fuelSpent{}) && !errors.As(ended, new(exitError)) {
					t.Errorf("%s.%s: %v", module, name, ended)
				}
			default:
				t.Errorf("%s.%s: %v", module, name, ended)
			}
		}()
		g.charge(priceImport)
		importOf(module, name)(g, m.Memory(), []uint64{a, b, c, d, a, b, c, d, a})
	})
}

// FuzzAnswerRange holds that no packed answer leads out of a guest's memory.
func FuzzAnswerRange(f *testing.F) {
	i := openModule(f, load(f, newEngine(f), wasmtest.Policy().Bytes()), OpenConfig{})
	f.Add(uint64(1<<32|16), uint32(maxAnswer))
	f.Add(uint64(65535<<32|2), uint32(maxText))
	f.Fuzz(func(t *testing.T, packed uint64, most uint32) {
		out, err := i.take(packed, most)
		at, n := packed>>32, packed&0xffffffff
		if inside := at+n <= i.MemoryBytes() && n <= uint64(most); (err == nil) != inside || err == nil && uint64(len(out)) != n {
			t.Errorf("take(%d bytes at %d) = %d bytes, %v", n, at, len(out), err)
		}
	})
}

// FuzzExplain reads what a trap says: functions' names in it are the guest's own.
func FuzzExplain(f *testing.F) {
	f.Add("wasm error: unreachable\nwasm stack trace:\n\t.inner()\n\t.berth_filter(i32) i64")
	f.Add("x (recovered by wazero)\nwasm stack trace:\n\t.wasm stack trace:\n")
	f.Fuzz(func(t *testing.T, said string) {
		what, stack := explain(errors.New(said))
		if what == nil || len(stack) > maxFrames {
			t.Errorf("explain = %v, %d frames", what, len(stack))
		}
		for _, frame := range stack {
			if len(frame.function) > maxFrameBytes || !utf8.ValidString(frame.function) {
				t.Errorf("a frame of %d bytes", len(frame.function))
			}
		}
	})
}
