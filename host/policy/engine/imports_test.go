package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// asked is a guest that calls imports by hand: what it may burn, and its memory
// of one page.
type attack struct {
	*guest
	memory api.Memory
	lines  []string
}

const askedFuel = 1 << 30

func newAsked(t *testing.T) *attack {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { _ = r.Close(ctx) })
	m, err := r.InstantiateWithConfig(ctx, wasmtest.Empty().Bytes(), wazero.NewModuleConfig().WithStartFunctions())
	check(t, err)
	a := &attack{memory: m.Memory()}
	a.guest = newGuest(OpenConfig{Log: func(_ slog.Level, s string) { a.lines = append(a.lines, s) }})
	a.fuel = &account{left: askedFuel}
	a.memory.Write(0, bytes.Repeat([]byte{0xee}, vet.PageBytes))
	return a
}

// call calls an import, and tells what it gave and took; a guest whose fuel is
// spent gives nothing.
func (a *attack) call(module, name string, stack ...uint64) (gave uint64, took Fuel, spent bool) {
	before := a.left()
	defer func() {
		took = before - a.left()
		if ended := recover(); ended != nil {
			err, _ := ended.(error)
			spent = errors.Is(err, fuelSpent{})
		}
	}()
	importOf(module, name)(a.guest, a.memory, stack)
	return stack[0], 0, false
}

// put writes numbers of 32 bits into the memory.
func (a *attack) put(at uint32, numbers ...uint32) {
	for i, n := range numbers {
		a.memory.WriteUint32Le(at+4*uint32(i), n)
	}
}

// TestImportsAnswerAndArePaid holds what each import says to what it is asked,
// and that what it reads or writes is paid for.
func TestImportsAnswerAndArePaid(t *testing.T) {
	t.Parallel()
	const page = vet.PageBytes
	ok := uint64(errnoOK)
	for name, c := range map[string]struct {
		call string
		with []uint64
		gave uint64
		took Fuel
	}{
		"no arguments":                       {"args_sizes_get", []uint64{0, 4}, ok, 0},
		"their number out of memory":         {"args_sizes_get", []uint64{page - 3, 0}, errnoFault, 0},
		"their size out of memory":           {"environ_sizes_get", []uint64{0, page - 3}, errnoFault, 0},
		"the clock's steps":                  {"clock_res_get", []uint64{0, 8}, ok, 0},
		"the time out of memory":             {"clock_time_get", []uint64{0, 0, page - 7}, errnoFault, 0},
		"the time at the end of memory":      {"clock_time_get", []uint64{0, 0, page - 8}, ok, 0},
		"random bytes":                       {"random_get", []uint64{8, 1000}, ok, 1000 * priceByte},
		"random bytes, all":                  {"random_get", []uint64{0, page}, ok, page * priceByte},
		"random bytes out of memory":         {"random_get", []uint64{1, page}, errnoFault, page * priceByte},
		"a terminal":                         {"fd_fdstat_get", []uint64{2, 8}, ok, 0},
		"no terminal":                        {"fd_fdstat_get", []uint64{3, 8}, errnoBadf, 0},
		"a terminal out of memory":           {"fd_fdstat_get", []uint64{2, page - 23}, errnoFault, 0},
		"a file":                             {"fd_read", []uint64{0, 0, 0, 0}, errnoBadf, 0},
		"a folder":                           {"path_open", []uint64{3, 0, 0, 0, 0, 0, 0, 0, 0}, errnoNosys, 0},
		"a socket":                           {"sock_accept", []uint64{3, 0, 0}, errnoNosys, 0},
		"a line":                             {"fd_write", []uint64{1, 256, 1, 512}, ok, priceImport + 5*priceByte},
		"two parts of one":                   {"fd_write", []uint64{2, 256, 2, 512}, ok, 2*priceImport + 12*priceByte},
		"a line to standard input":           {"fd_write", []uint64{0, 256, 1, 512}, errnoBadf, 0},
		"a line to a file":                   {"fd_write", []uint64{3, 256, 1, 512}, errnoBadf, 0},
		"no line":                            {"fd_write", []uint64{1, 256, 0, 512}, ok, 0},
		"a line in as many parts as may be":  {"fd_write", []uint64{1, 3072, 64, 512}, ok, 64 * priceImport},
		"a line in too many parts":           {"fd_write", []uint64{1, 3072, 65, 512}, errnoInval, 0},
		"arguments":                          {"args_get", []uint64{9, 9}, ok, 0},
		"an environment":                     {"environ_get", []uint64{9, 9}, ok, 0},
		"a turn for others":                  {"sched_yield", []uint64{9}, ok, 0},
		"parts out of memory":                {"fd_write", []uint64{1, page - 4, 1, 512}, errnoFault, 0},
		"a line out of memory":               {"fd_write", []uint64{1, 272, 1, 512}, errnoFault, priceImport + 8*priceByte},
		"how much was written out of memory": {"fd_write", []uint64{1, 256, 1, page - 3}, errnoFault, priceImport + 5*priceByte},
		"a sleeper":                          {"poll_oneoff", []uint64{2048, 4096, 1, 512}, ok, priceImport},
		"no sleeper":                         {"poll_oneoff", []uint64{2048, 4096, 0, 512}, errnoInval, 0},
		"as many as there may be":            {"poll_oneoff", []uint64{2048, 8192, 64, 512}, ok, 64 * priceImport},
		"too many":                           {"poll_oneoff", []uint64{2048, 8192, 65, 512}, errnoInval, 0},
		"a sleeper out of memory":            {"poll_oneoff", []uint64{page - 47, 4096, 1, 512}, errnoFault, priceImport},
		"its waking out of memory":           {"poll_oneoff", []uint64{2048, page - 31, 1, 512}, errnoFault, priceImport},
		"how many woke out of memory":        {"poll_oneoff", []uint64{2048, 4096, 1, page - 3}, errnoFault, priceImport},
	} {
		a := newAsked(t)
		a.put(256, 300, 5, 305, 7, page-7, 8)
		a.memory.Write(3072, make([]byte, 1024))
		gave, took, spent := a.call(vet.ModuleWASI, c.call, c.with...)
		if gave != c.gave || took != c.took || spent {
			t.Errorf("%s: %s%d = %d for %d of fuel (spent: %v), want %d for %d", name, c.call, c.with, gave, took, spent, c.gave, c.took)
		}
	}
}

// TestNoImportWorksOnCredit holds that an import whose work is not paid is not done.
func TestNoImportWorksOnCredit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		module string
		with   []uint64
	}{
		"log":         {vet.ModuleBerth, []uint64{1, 0, maxLine}},
		"random_get":  {vet.ModuleWASI, []uint64{0, 1 << 31}},
		"fd_write":    {vet.ModuleWASI, []uint64{1, 256, 1, 512}},
		"poll_oneoff": {vet.ModuleWASI, []uint64{2048, 4096, 64, 512}},
	} {
		a := newAsked(t)
		a.put(256, 300, 1000)
		a.fuel.Set(1000)
		if name == "random_get" {
			a.fuel.Set(1 << 31)
		}
		_, _, spent := a.call(c.module, name, c.with...)
		if !spent || !a.guest.spent || len(a.lines) > 0 || len(a.line) > 0 {
			t.Errorf("%s with too little fuel: spent %v, it said %q", name, spent, a.lines)
		}
		if n, _ := a.memory.ReadUint32Le(4096); n != 0xeeeeeeee {
			t.Errorf("%s with too little fuel writes %#x", name, n)
		}
	}
}

// TestWhatImportsWrite holds what they leave in a guest's memory.
func TestWhatImportsWrite(t *testing.T) {
	t.Parallel()
	a := newAsked(t)
	u64 := func(at uint32) uint64 { n, _ := a.memory.ReadUint64Le(at); return n }
	u32 := func(at uint32) uint32 { n, _ := a.memory.ReadUint32Le(at); return n }
	a.call(vet.ModuleWASI, "args_sizes_get", 0, 4)
	if u64(0) != 0 {
		t.Errorf("there are arguments: %x", u64(0))
	}
	a.call(vet.ModuleWASI, "clock_time_get", 0, 0, 16)
	first := u64(16)
	a.call(vet.ModuleWASI, "clock_time_get", 0, 0, 16)
	if first != epoch+tick || u64(16) != first+tick {
		t.Errorf("the clock says %d and %d, want steps of %d", first, u64(16), tick)
	}
	a.put(256, 300, 4, 304, 3)
	a.memory.Write(300, []byte("a\nbc\nd\n"))
	a.call(vet.ModuleWASI, "fd_write", 1, 256, 2, 512)
	if u32(512) != 7 || len(a.lines) != 3 || a.lines[0] != "a" || a.lines[1] != "bc" || a.lines[2] != "d" {
		t.Errorf("of 7 bytes %d are said to be written, as %q", u32(512), a.lines)
	}
	a.call(vet.ModuleWASI, "fd_fdstat_get", 1, 600)
	if stat, _ := a.memory.Read(600, 24); stat[0] != 2 || !bytes.Equal(stat[1:], make([]byte, 23)) {
		t.Errorf("standard output is %x", stat)
	}
	// A sleeper by 5 s, one until 7 s after the epoch, and one for a file.
	subscribe := func(n int, user uint64, kind byte, ns uint64, flags byte) {
		var s [48]byte
		binary.LittleEndian.PutUint64(s[:], user)
		binary.LittleEndian.PutUint64(s[24:], ns)
		s[8], s[40] = kind, flags
		a.memory.Write(uint32(2048+48*n), s[:])
	}
	before := a.clock
	subscribe(0, 77, 0, 5e9, 0)
	subscribe(1, 78, 0, epoch+7e9, 1)
	subscribe(2, 79, 1, 0, 0)
	a.call(vet.ModuleWASI, "poll_oneoff", 2048, 4096, 3, 512)
	if u32(512) != 3 || u64(4096) != 77 || u64(4096+32) != 78 || u64(4096+64) != 79 {
		t.Errorf("%d wake: %d, %d, %d", u32(512), u64(4096), u64(4096+32), u64(4096+64))
	}
	if u64(4096+8) != 0 || u64(4096+64+8) != 1<<16|errnoBadf {
		t.Errorf("a sleeper wakes with %x, a reader with %x", u64(4096+8), u64(4096+64+8))
	}
	if want := uint64(7e9); a.clock != want || before >= want {
		t.Errorf("after the sleep the clock stands at %d, want %d", a.clock, want)
	}
	subscribe(0, 1, 0, 1<<63, 0)
	for range 3 {
		a.call(vet.ModuleWASI, "poll_oneoff", 2048, 4096, 1, 512)
	}
	if a.clock != 1<<62 {
		t.Errorf("after sleeps without end the clock stands at %d, want %d", a.clock, uint64(1)<<62)
	}
	subscribe(0, 1, 0, 9, 1) // a time that has passed
	a.call(vet.ModuleWASI, "poll_oneoff", 2048, 4096, 1, 512)
	if a.clock != 1<<62 {
		t.Errorf("after a sleep until long ago the clock stands at %d", a.clock)
	}
}

// TestAGuestThatEndsItselfIsEnded holds that it does not run on.
func TestAGuestThatEndsItselfIsEnded(t *testing.T) {
	t.Parallel()
	a := newAsked(t)
	defer func() {
		if err, _ := recover().(error); !errors.As(err, new(exitError)) || !a.exited {
			t.Errorf("proc_exit = %v, exited %v", err, a.exited)
		}
	}()
	importOf(vet.ModuleWASI, "proc_exit")(a.guest, a.memory, []uint64{3})
}

func TestRandomBytesAreTheSameAndDiffer(t *testing.T) {
	t.Parallel()
	var all [2][]byte
	for n := range all {
		a := newAsked(t)
		a.call(vet.ModuleWASI, "random_get", 0, 1000)
		b, _ := a.memory.Read(0, 1000)
		all[n] = bytes.Clone(b)
	}
	kinds := map[byte]bool{}
	for _, c := range all[0] {
		kinds[c] = true
	}
	if !bytes.Equal(all[0], all[1]) || len(kinds) < 200 {
		t.Errorf("of 1000 random bytes %d differ; the same in two guests: %v", len(kinds), bytes.Equal(all[0], all[1]))
	}
}

// TestAGuestThatSaysTooMuchIsCut holds over calls, and lets it speak again later.
func TestAGuestThatSaysTooMuchIsCut(t *testing.T) {
	t.Parallel()
	a := newAsked(t)
	const calls = 1000
	for range calls {
		a.begin(askedFuel, 0, time.Now())
		a.call(vet.ModuleBerth, "log", 1, 0, 1)
	}
	if len(a.lines) < linesBurst || len(a.lines) > calls/2 {
		t.Errorf("of %d lines %d were passed on, want about %d", calls, len(a.lines), linesBurst)
	}
	before := len(a.lines)
	a.tokens, a.filled = 0, time.Now().Add(-time.Second)
	a.begin(askedFuel, 0, time.Now())
	a.call(vet.ModuleBerth, "log", 1, 0, 1)
	if len(a.lines) != before+2 { // with that of those that were dropped
		t.Errorf("after a second, %d lines were passed on, want 2", len(a.lines)-before)
	}
	var index, more uint32
	a.count = func(i, n uint32) { index, more = i, n }
	a.call(vet.ModuleBerth, "count", 3, 4)
	a.count = nil
	a.call(vet.ModuleBerth, "count", 5, 6)
	if index != 3 || more != 4 {
		t.Errorf("counter %d was counted by %d, want counter 3 by 4", index, more)
	}
}

func TestBudgetsGrowWithWhatIsAsked(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	least := ApplyBudget(1, 100, mib, 0)
	for what, c := range map[string]struct{ got, more Fuel }{
		"rows":    {ApplyBudget(11, 100, mib, 0), 10 * rowBudget},
		"bytes":   {ApplyBudget(1, 1100, mib, 0), 1000 * byteBudget},
		"a bulk":  {ApplyBudget(bulkRows+1, 100, mib, 0), bulkRows*rowBudget + bulkBudget - MaxBudget},
		"no bulk": {ApplyBudget(bulkRows, 100, mib, 0), (bulkRows - 1) * rowBudget},
		"objects": {AskBudget(3, 0, 100, mib), 3*objectBudget + ApplyBudget(3, 100, mib, SlotsOf(3)) - least},
	} {
		if c.got != least+c.more {
			t.Errorf("for more %s there is %d of fuel more, want %d", what, c.got-least, c.more)
		}
	}
	if got := grown(MaxBudget, 128*mib); got >= MaxBudget || got <= 0 {
		t.Errorf("a call of a guest that has grown to 128 MiB may burn %d of %d", got, MaxBudget)
	}
	if got := grown(MaxBudget+1, 128*mib); got != MaxBudget+1 {
		t.Errorf("a call whose budget reckons with growth may burn %d of %d", got, MaxBudget+1)
	}
}
