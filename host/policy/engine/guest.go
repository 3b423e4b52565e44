package engine

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"time"
	"unicode"

	"github.com/tetratelabs/wazero/api"
)

// Limits of what a guest may say.
const (
	maxLine      = 1 << 10 // bytes of a line
	linesPerCall = 16
	linesPerRate = 10 // a second, after a burst
	linesBurst   = 100
)

// guest is the host's side of one instance's imports.
type guest struct {
	log    func(slog.Level, string)
	count  func(index, n uint32)
	fuel   api.MutableGlobal // of the slice that runs
	budget Fuel              // of this call
	memory uint64            // when its budget was made
	slice  Fuel              // the largest
	rest   Fuel              // of the budget beyond it
	since  time.Time         // when it got the processor
	spent  bool              // the budget
	exited bool
	clock  uint64 // nanoseconds, which pass by being asked
	random uint64
	lines  int // in this call
	lost   int
	tokens float64
	filled time.Time
	line   []byte // begun on standard output or error
	panic  string // what this call's panic said, as compilers print it
}

func newGuest(c OpenConfig) *guest {
	return &guest{log: c.Log, count: c.Count, tokens: linesBurst}
}

func (g *guest) begin(budget Fuel, memory uint64, now time.Time) {
	g.lines, g.spent, g.budget, g.panic, g.since = 0, false, budget, "", now
	g.holds(memory)
	g.set(budget)
}

// holds notes how much memory the guest has.
func (g *guest) holds(memory uint64) { g.memory, g.slice = memory, slice(memory) }

// set gives a budget, of which the guest gets a slice at first.
func (g *guest) set(budget Fuel) {
	now := min(budget, g.slice)
	g.rest = budget - now
	g.fuel.Set(uint64(now))
}

// left is what is left of the budget.
func (g *guest) left() Fuel { return g.rest + Fuel(g.fuel.Get()) }

// fuelSpent stops a guest in the midst of an import.
type fuelSpent struct{}

func (fuelSpent) Error() string { return "fuel spent" }

// charge takes fuel for an import's work. It panics where none is left, which
// wazero turns into an error of the call.
func (g *guest) charge(n uint64) {
	left := g.left() - Fuel(n)
	g.set(left)
	if left < 0 {
		g.spent = true
		panic(fuelSpent{})
	}
}

// turn is how long a guest has the processor before others get theirs. Slices may
// be shorter: whoever gives way waits for all that is ready, which on a busy host
// takes longer than the slice did.
const turn = 250 * time.Microsecond

// yield is called by a guest whose slice has run out. It is where Go's collector
// can stop the guest, grants the next slice, and gives way when it is time.
func yield(ctx context.Context, m api.Module, _ []uint64) {
	g := ctx.Value(guestKey{}).(*guest)
	if memory := uint64(m.Memory().Size()); memory > g.memory {
		g.holds(memory)
		g.set(min(g.left(), grown(g.budget, memory)))
	}
	g.charge(0)
	if time.Since(g.since) >= turn {
		runtime.Gosched()
		g.since = time.Now()
	}
}

// end tells of what was dropped in a call, lest the guest says no more.
func (g *guest) end() {
	if g.lost > 0 && g.allowed() {
		g.tellLost()
	}
}

func (g *guest) tellLost() {
	g.log(slog.LevelWarn, plural(g.lost)+" dropped: the guest says too much")
	g.lost = 0
}

// say passes a line on, if the guest has not said too much.
func (g *guest) say(level slog.Level, line []byte) {
	if g.log == nil {
		return
	}
	if g.lines++; g.lines > linesPerCall || !g.allowed() {
		g.lost++
		return
	}
	if g.lost > 0 {
		g.tellLost()
	}
	g.log(level, plain(string(line)))
}

// plain makes foreign text fit to be shown: valid, in one line, and with nothing
// in it that steers a terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

func (g *guest) allowed() bool {
	now := time.Now()
	if !g.filled.IsZero() {
		g.tokens = min(linesBurst, g.tokens+linesPerRate*now.Sub(g.filled).Seconds())
	}
	g.filled = now
	if g.tokens < 1 {
		return false
	}
	g.tokens--
	return true
}

// write takes what the guest writes to standard output and error, by lines.
func (g *guest) write(p []byte) {
	for _, c := range p {
		if c == '\n' || len(g.line) == maxLine {
			g.printed(g.line)
			g.line = g.line[:0]
		}
		if c != '\n' {
			g.line = append(g.line, c)
		}
	}
}

// panicMark is how TinyGo and Go begin what they print of a panic.
const panicMark = "panic: "

// printed passes on a line of standard output or error. That of a panic is kept
// for the failure which follows: it says more than the trap.
func (g *guest) printed(line []byte) {
	if g.panic == "" && bytes.HasPrefix(line, []byte(panicMark)) {
		g.panic = plain(string(line))
		g.say(slog.LevelError, line)
		return
	}
	g.say(slog.LevelInfo, line)
}

// next is a number that looks random and is the same in each instance.
func (g *guest) next() uint64 {
	g.random += 0x9e3779b97f4a7c15
	z := g.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
