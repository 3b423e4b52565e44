package engine

import (
	"log/slog"
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
	fuel   api.MutableGlobal
	exited bool
	clock  uint64 // nanoseconds, which pass by being asked
	random uint64
	lines  int // in this call
	lost   int
	tokens float64
	filled time.Time
	rest   []byte // of a line written to standard output or error
}

func newGuest(c OpenConfig) *guest {
	return &guest{log: c.Log, count: c.Count, tokens: linesBurst}
}

func (g *guest) begin() { g.lines = 0 }

// fuelSpent stops a guest in the midst of an import.
type fuelSpent struct{}

func (fuelSpent) Error() string { return "fuel spent" }

// charge takes fuel for an import's work. It panics where none is left, which
// wazero turns into an error of the call.
func (g *guest) charge(n uint64) {
	left := int64(g.fuel.Get()) - int64(n)
	g.fuel.Set(uint64(left))
	if left < 0 {
		panic(fuelSpent{})
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
		if c == '\n' || len(g.rest) == maxLine {
			g.say(slog.LevelInfo, g.rest)
			g.rest = g.rest[:0]
		}
		if c != '\n' {
			g.rest = append(g.rest, c)
		}
	}
}

// next is a number that looks random and is the same in each instance.
func (g *guest) next() uint64 {
	g.random += 0x9e3779b97f4a7c15
	z := g.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
