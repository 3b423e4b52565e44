package vet

import (
	"testing"

	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// TestValuesAreCountedWhereTheyAreMade holds what liveness counts against what
// was counted by hand: a value where a variable is set that is used later, and
// where ways meet one for the fuel and one for each variable that is set on one
// of them and used beyond; a loop's head counts twice.
func TestValuesAreCountedWhereTheyAreMade(t *testing.T) {
	t.Parallel()
	set, get := func(v uint32) event { return event{sets, v} }, func(v uint32) event { return event{gets, v} }
	in, call, orElse := event{opens, 0}, event{invokes, 0}, event{otherwise, 0}
	out := func(kind uint32) event { return event{ends, kind} }
	may, always := func(depth uint32) event { return event{mayGo, depth} }, func(depth uint32) event { return event{goes, depth} }
	const setOnce, meets, turn = 1, 2, 4 // a value; the fuel and a variable; the same twice
	for name, c := range map[string]struct {
		flow []event
		want int
	}{
		"nothing":                                {nil, 0},
		"set and used":                           {[]event{set(0), get(0)}, setOnce},
		"set and not used":                       {[]event{set(0), get(1)}, 0},
		"set twice and used once":                {[]event{set(0), set(0), get(0)}, setOnce},
		"the 65th variable":                      {[]event{set(64), get(64)}, setOnce},
		"a call sets what calls set":             {[]event{set(65), call, get(65)}, setOnce},
		"a call leaves the others":               {[]event{set(0), call, get(0)}, setOnce},
		"set in an if":                           {[]event{in, set(0), out(anIf), get(0)}, setOnce + meets},
		"before it too":                          {[]event{set(0), in, set(0), out(anIf), get(0)}, 2*setOnce + meets},
		"set in an if and its else":              {[]event{in, set(0), orElse, set(0), out(anIf), get(0)}, 2*setOnce + meets},
		"before them too":                        {[]event{set(0), in, set(0), orElse, set(0), out(anIf), get(0)}, 2*setOnce + meets},
		"used in the else alone":                 {[]event{set(0), in, orElse, get(0), out(anIf)}, setOnce + 1},
		"set in an if, used in its else":         {[]event{set(0), in, set(0), orElse, get(0), out(anIf)}, setOnce + 1},
		"a call in an if":                        {[]event{in, call, out(anIf), get(65)}, setOnce + meets},
		"a block that nobody leaves":             {[]event{in, set(0), out(aBlock), get(0)}, setOnce},
		"a block that is left":                   {[]event{set(0), in, may(0), set(0), out(aBlock), get(0)}, 2*setOnce + meets},
		"a block that is left at its end":        {[]event{in, set(0), always(0), out(aBlock), get(0)}, setOnce + meets},
		"left before it is used":                 {[]event{set(0), in, always(0), get(0), out(aBlock)}, 1},
		"a block left from one within":           {[]event{set(0), in, in, may(1), set(0), out(aBlock), out(aBlock), get(0)}, 2*setOnce + meets},
		"what stops uses nothing":                {[]event{set(0), event{stops, 0}, get(0)}, 0},
		"a branch out of the function":           {[]event{set(0), may(3), get(0)}, setOnce},
		"set in a block within one that is left": {[]event{in, may(0), in, set(0), out(aBlock), out(aBlock), get(0)}, setOnce + meets},
		"a loop that uses what it set":           {[]event{in, get(0), set(0), may(0), out(aLoop)}, setOnce + turn},
		"a loop that does not turn":              {[]event{in, get(0), set(0), out(aLoop)}, turn},
		"a loop that sets for what follows":      {[]event{in, set(0), may(0), out(aLoop), get(0)}, setOnce + 2},
		"set in a loop, used in one around":      {[]event{in, get(0), in, set(0), may(0), out(aLoop), may(0), out(aLoop)}, setOnce + 2*turn},
		"the same with a block between":          {[]event{in, get(0), in, in, set(0), may(0), out(aLoop), out(aBlock), may(0), out(aLoop)}, setOnce + 2*turn},
		"set around a loop that uses it":         {[]event{in, set(0), in, get(0), may(0), out(aLoop), may(0), out(aLoop)}, setOnce + 2 + 2},
		"two loops one after the other":          {[]event{in, get(0), set(0), may(0), out(aLoop), in, get(1), set(1), may(0), out(aLoop)}, 2 * (setOnce + turn)},
	} {
		var l liveness
		for range 2 { // the second time in the memory of the first
			if got := l.count(c.flow, 65, 66); got != c.want {
				t.Errorf("%s: %d values, want %d", name, got, c.want)
			}
		}
	}
}

// TestWhatWaitsIsReckoned holds that each value which has to be kept while
// others are made takes a place in the frame that is reckoned.
func TestWhatWaitsIsReckoned(t *testing.T) {
	t.Parallel()
	const n, slot = 100, 8
	frame := func(times int, code ...[]byte) int64 {
		m := rich()
		m.Func("none", Sig(nil), nil)
		m.Func("many", Sig(make64(16)), nil)
		m.Func("gives", Sig(nil, make64(16)...), nil, Times(16, I64Const(0)))
		m.Func("one", Sig(nil, I64), nil, I64Const(0))
		m.Func("f", Sig([]byte{I32, I64}), nil, Times(times, code...), Op(0x00))
		_, frames, err := Frames(m.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		return frames[len(frames)-1]
	}
	const none, many, gives, one = 7, 8, 9, 10
	sum := Seq(Get(0), Get(0), Op(0x6a))
	for name, c := range map[string]struct {
		code []byte
		kept int64
	}{
		"a sum":                      {sum, 1},
		"what was loaded":            {Seq(sum, Load32(0)), 1},
		"what a byte was loaded":     {Seq(sum, Op(0x35, 0, 0)), 1},
		"an address":                 {Seq(Get(0), Load32(0), Op(0x1a)), 1},
		"where something is stored":  {Seq(sum, Get(1), Store64(0)), 1},
		"the size of the memory":     {Op(0x3f, 0), 1},
		"one of two":                 {Seq(Get(1), Get(1), Get(0), Op(0x1b)), 1},
		"one of two, by its type":    {Seq(Get(1), Get(1), Get(0), Op(0x1c, 1, I64)), 1},
		"an entry of a table":        {Seq(Get(0), Op(0x25, 0)), 1},
		"a reference":                {Seq(Op(0xd2, 1)), 1},
		"what a call leaves":         {Call(one), 2}, // and the fuel
		"many that a call leaves":    {Call(gives), 17},
		"the fuel after a call":      {Call(none), 1},
		"a block's value":            {Block(I64, Get(1)), 1},
		"an if's value":              {Seq(Get(0), Op(0x04, I64), Get(1), Op(0x05), Get(1), Op(0x0b)), 1},
		"what lies under a constant": {Seq(sum, F64Const(1)), 1},
		"what lies under a null":     {Seq(sum, Op(0xd0, 0x70)), 1},
		"a look at a bulk operation": {Seq(Get(0), Get(0), Get(0), Op(0xfc, 11, 0)), 2},
		"a look at the fuel":         {Seq(Op(0x03, Void), Op(0x0b)), 2},
		"the memory, after a call":   {Seq(Call(none), Get(0), Load32(0), Op(0x1a)), 3},
		"a global, after a call":     {Seq(Call(none), GlobalGet(0), Op(0x1a)), 2},
		"one, after a look":          {Seq(Get(0), Get(0), Get(0), Op(0xfc, 11, 0), GlobalGet(0), Op(0x1a)), 4},
		"one, after a table's call":  {Seq(I32Const(0), Op(0x11, 1, 0), GlobalGet(0), Op(0x1a)), 2},
	} {
		if got, want := frame(2*n, c.code)-frame(n, c.code), int64(n*slot)*c.kept; got < want {
			t.Errorf("%s, %d times more: %d bytes more, want %d at least", name, n, got, want)
		}
	}
	if got := frame(1, Times(16, Get(1)), Call(many)) - frame(1, Times(16, Get(1)), Call(none)); got < 16*slot {
		t.Errorf("a call's 16 operands: %d bytes more, want %d at least", got, 16*slot)
	}
	if got, half := frame(1, vectorTimes(2*n)), frame(1, vectorTimes(n)); got-half < 2*slot*n {
		t.Errorf("%d vectors more: %d bytes more, want %d at least", n, got-half, 2*slot*n)
	}
}

func make64(n int) (all []byte) {
	for range n {
		all = append(all, I64)
	}
	return all
}

func vectorTimes(n int) []byte { return Times(n, Get(1), Op(0xfd, 18)) }
