package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/berth-dev/berth/host/policy/vet"
)

// WASI's error numbers.
const (
	errnoOK    = 0
	errnoBadf  = 8
	errnoFault = 21
	errnoInval = 28
	errnoNosys = 52
)

// priceImport is the fuel of a call to an import; priceByte of each byte that it
// reads or writes.
const (
	priceImport = 300
	priceByte   = 2
)

type importFunc func(g *guest, m api.Memory, stack []uint64)

// wasi holds what does more than to say no.
var wasi = map[string]importFunc{
	"args_get":          func(_ *guest, _ api.Memory, s []uint64) { s[0] = errnoOK },
	"environ_get":       func(_ *guest, _ api.Memory, s []uint64) { s[0] = errnoOK },
	"args_sizes_get":    noneOf,
	"environ_sizes_get": noneOf,
	"sched_yield":       func(_ *guest, _ api.Memory, s []uint64) { s[0] = errnoOK },
	"clock_res_get":     func(_ *guest, m api.Memory, s []uint64) { s[0] = put64(m, s[1], tick) },
	"clock_time_get":    clockTime,
	"random_get":        randomGet,
	"fd_write":          fdWrite,
	"fd_fdstat_get":     fdStat,
	"poll_oneoff":       pollOneoff,
	"proc_exit":         func(g *guest, _ api.Memory, s []uint64) { g.exited = true; panic(exitError(uint32(s[0]))) },
}

// exitError ends a guest that called proc_exit.
type exitError uint32

func (e exitError) Error() string {
	return "it ended itself with status " + strconv.FormatUint(uint64(e), 10)
}

// provideImports gives a runtime what its module imports.
func provideImports(ctx context.Context, r wazero.Runtime, m wazero.CompiledModule) error {
	builders := map[string]wazero.HostModuleBuilder{}
	for _, def := range m.ImportedFunctions() {
		module, name, _ := def.Import()
		if builders[module] == nil {
			builders[module] = r.NewHostModuleBuilder(module)
		}
		do := hostFunc(importOf(module, name))
		if module == vet.YieldModule {
			do = yield
		}
		builders[module].NewFunctionBuilder().
			WithGoModuleFunction(do, def.ParamTypes(), def.ResultTypes()).
			Export(name)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

func importOf(module, name string) importFunc {
	if module == vet.ModuleBerth {
		return berth[name]
	}
	if f := wasi[name]; f != nil {
		return f
	}
	return func(_ *guest, _ api.Memory, s []uint64) {
		if len(s) > 0 {
			s[0] = refusalOf(name)
		}
	}
}

// refusalOf is what a guest gets that asks for files or sockets: it has none.
func refusalOf(name string) uint64 {
	if len(name) > 3 && name[:3] == "fd_" {
		return errnoBadf
	}
	return errnoNosys
}

func hostFunc(f importFunc) api.GoModuleFunc {
	return func(ctx context.Context, m api.Module, stack []uint64) {
		g := ctx.Value(guestKey{}).(*guest)
		g.charge(priceImport)
		f(g, m.Memory(), stack)
	}
}

// berth holds what the ABI offers beside WASI; vet lets no other name through.
var berth = map[string]importFunc{"log": berthLog, "count": berthCount}

func berthCount(g *guest, _ api.Memory, s []uint64) {
	if g.count != nil {
		g.count(uint32(s[0]), uint32(s[1]))
	}
}

func berthLog(g *guest, m api.Memory, s []uint64) {
	level, at, size := uint32(s[0]), uint32(s[1]), uint32(s[2])
	n := min(size, maxLine)
	g.charge(priceByte * uint64(n))
	line, ok := m.Read(at, n)
	if !ok {
		return
	}
	if n < size {
		line = append(bytes.Clone(line), fmt.Sprintf(" (cut: %d bytes more)", size-n)...)
	}
	g.say(logLevel(level), line)
}

// logLevel maps the ABI's levels: 0 debug, 1 info, 2 warning, 3 and above error.
func logLevel(l uint32) slog.Level {
	return slog.LevelDebug + slog.Level(4*min(l, 3))
}

func put32(m api.Memory, at uint64, v uint32) uint64 {
	if !m.WriteUint32Le(uint32(at), v) {
		return errnoFault
	}
	return errnoOK
}

func put64(m api.Memory, at uint64, v uint64) uint64 {
	if !m.WriteUint64Le(uint32(at), v) {
		return errnoFault
	}
	return errnoOK
}

func noneOf(_ *guest, m api.Memory, s []uint64) {
	if s[0] = put32(m, s[0], 0); s[0] == errnoOK {
		s[0] = put32(m, s[1], 0)
	}
}

const (
	tick  = 1000                // nanoseconds that pass when the clock is read
	epoch = 1_600_000_000 * 1e9 // where the clock of every guest starts
)

func clockTime(g *guest, m api.Memory, s []uint64) {
	g.clock += tick
	s[0] = put64(m, s[2], epoch+g.clock)
}

func randomGet(g *guest, m api.Memory, s []uint64) {
	g.charge(priceByte * (s[1] & 0xffffffff))
	b, ok := m.Read(uint32(s[0]), uint32(s[1]))
	if !ok {
		s[0] = errnoFault
		return
	}
	for i := range b {
		b[i] = byte(g.next())
	}
	s[0] = errnoOK
}

func fdWrite(g *guest, m api.Memory, s []uint64) {
	const maxVectors = 64
	fd, vectors, n := uint32(s[0]), uint32(s[1]), uint32(s[2])
	if fd != 1 && fd != 2 {
		s[0] = errnoBadf
		return
	}
	if n > maxVectors {
		s[0] = errnoInval
		return
	}
	var written uint32
	for i := range n {
		at, ok1 := m.ReadUint32Le(vectors + 8*i)
		size, ok2 := m.ReadUint32Le(vectors + 8*i + 4)
		if !ok1 || !ok2 {
			s[0] = errnoFault
			return
		}
		g.charge(priceImport + priceByte*uint64(size))
		b, ok := m.Read(at, size)
		if !ok {
			s[0] = errnoFault
			return
		}
		g.write(b)
		written += size
	}
	s[0] = put32(m, s[3], written)
}

// fdStat says that standard input, output and error are terminals.
func fdStat(_ *guest, m api.Memory, s []uint64) {
	const characterDevice = 2
	if uint32(s[0]) > 2 {
		s[0] = errnoBadf
		return
	}
	var stat [24]byte
	stat[0] = characterDevice
	if !m.Write(uint32(s[1]), stat[:]) {
		s[0] = errnoFault
		return
	}
	s[0] = errnoOK
}

// pollOneoff lets sleepers wake at once: the clock jumps to where they wait for.
func pollOneoff(g *guest, m api.Memory, s []uint64) {
	const (
		subscription = 48
		event        = 32
		maxEvents    = 64
	)
	in, out, n := uint32(s[0]), uint32(s[1]), uint32(s[2])
	if n == 0 || n > maxEvents {
		s[0] = errnoInval
		return
	}
	g.charge(priceImport * uint64(n))
	for i := range n {
		sub, ok := m.Read(in+subscription*i, subscription)
		if !ok {
			s[0] = errnoFault
			return
		}
		var e [event]byte
		copy(e[:8], sub[:8])
		e[10] = sub[8]
		if sub[8] == 0 {
			g.sleep(binary.LittleEndian.Uint64(sub[24:]), sub[40]&1 != 0)
		} else {
			binary.LittleEndian.PutUint16(e[8:], errnoBadf)
		}
		if !m.Write(out+event*i, e[:]) {
			s[0] = errnoFault
			return
		}
	}
	s[0] = put32(m, s[3], n)
}

// sleep moves the clock to a time, absolute or from now.
func (g *guest) sleep(ns uint64, absolute bool) {
	const most = 1 << 62
	if absolute {
		ns -= min(ns, epoch+g.clock)
	}
	g.clock = min(g.clock+min(ns, most), most)
}

func plural(n int) string {
	if n == 1 {
		return "1 line"
	}
	return strconv.Itoa(n) + " lines"
}
