package json

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"
)

func TestParseConfigRefuses(t *testing.T) {
	t.Parallel()
	deep := make([]byte, 0, 200)
	for range 100 {
		deep = append(deep, '[')
	}
	for name, text := range map[string]string{
		"half an object":      `{"a":1`,
		"a missing colon":     `{"a" 1}`,
		"a missing comma":     `[1 2]`,
		"a leading comma":     `[,1]`,
		"text behind":         `{} x`,
		"a bare word":         `nil`,
		"an open string":      `"abc`,
		"a wrong escape":      `"\q"`,
		"wrong hex":           `"\u12g4"`,
		"a control character": "\"a\nb\"",
		"a lone minus":        `-`,
		"too large a number":  `1e999`,
		"nesting":             string(deep),
	} {
		if v, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: ParseConfig(%q) = %v, want an error", name, text, v)
		}
	}
}

func TestConfigGivesSettings(t *testing.T) {
	t.Parallel()
	c, err := Parse([]byte(` {"n": -12, "f": 2.5e1, "s": "a\"\u00e4\ud83d\ude00\n", "b": true, "l": ["x","y"], "o": {"k": null}} `))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Int("n", -20, 20, 0); n != -12 || err != nil {
		t.Errorf("Int(n) = %d, %v", n, err)
	}
	if n, err := c.Int("f", 0, 100, 0); n != 25 || err != nil {
		t.Errorf("Int(f) = %d, %v", n, err)
	}
	if _, err := c.Int("n", 0, 20, 0); err == nil {
		t.Error("Int(n) took a number out of range")
	}
	if n, err := c.Int("absent", 0, 20, 7); n != 7 || err != nil {
		t.Errorf("Int(absent) = %d, %v", n, err)
	}
	if s := c.String("s", ""); s != "a\"ä😀\n" {
		t.Errorf("String(s) = %q", s)
	}
	if b, err := c.Bool("b", false); !b || err != nil {
		t.Errorf("Bool(b) = %v, %v", b, err)
	}
	if l, err := c.Texts("l"); len(l) != 2 || err != nil {
		t.Errorf("Texts(l) = %v, %v", l, err)
	}
	if !c.Object("o").Has("k") || !c.Object("o").Object("k").IsNull() {
		t.Error("null in an object was lost")
	}
	if err := c.OnlyKeys("n", "f", "s", "b", "l"); err == nil {
		t.Error("OnlyKeys passed a key that it does not know")
	}
}

// FuzzParseConfig compares with encoding/json: what both take must mean the
// same, and what goes out must be JSON.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,"x\u0041"],"b":{"c":null,"d":true}}`, `-0.5e-3`, `"\ud83d\ude00"`, `"\ud800\u0000"`, `[[],{}]`, `1e400`, `3e-310`, `5e-324`, `1e-400`, `12345678901234567890e-320`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Parse(b)
		if err != nil {
			return
		}
		if len(bytes.TrimSpace(b)) == 0 {
			return
		}
		var theirs any
		if json.Unmarshal(b, &theirs) != nil {
			return // ours is more lenient about numbers
		}
		out := c.JSON()
		var again any
		if err := json.Unmarshal([]byte(out), &again); err != nil {
			t.Fatalf("JSON(%q) = %q: %v", b, out, err)
		}
		if f, ok := theirs.(float64); ok {
			if n, _ := c.Number(); math.Abs(n-f) > 1e-9*math.Abs(f)+4*math.SmallestNonzeroFloat64 {
				t.Errorf("%q = %v, want %v", b, n, f)
			}
		}
		if !reflect.DeepEqual(plain(c), plain(Value{text: out, compact: true})) {
			t.Errorf("%q is read as %v, and what it becomes, %q, as %v", b, plain(c), out, plain(Value{text: out, compact: true}))
		}
		if s, ok := theirs.(string); ok && again != s {
			t.Errorf("%q = %q, want %q", b, again, s)
		}
	})
}

// plain is a value as encoding/json would give it, but for doubled keys, all of
// which it holds.
func plain(c Value) any {
	switch c.kind() {
	case 'o':
		keys := c.Keys()
		for i, v := range c.Items() {
			keys[i] = string([]rune(keys[i])) + fmt.Sprint(" ", plain(v))
		}
		return keys
	case 'l':
		var list []any
		for _, v := range c.All {
			list = append(list, plain(v))
		}
		return list
	case 's':
		text, _ := c.Text()
		return string([]rune(text))
	case 'n':
		n, _ := c.Number()
		return n
	}
	return c.text
}
