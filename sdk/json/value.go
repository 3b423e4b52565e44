package json

import (
	"errors"
	"math"
	"strconv"
)

// Value is a JSON value, such as a policy's settings or a part of them, read by a
// decoder of a few kilobytes, since encoding/json costs a guest 240. It is looked
// through anew for each value that is asked of it, and holds nothing but its
// text: keep what is needed often.
// The zero Value is an empty object.
type Value struct {
	text    string  // that was found to be JSON, without space before or behind
	compact bool    // has no space within, but in strings
	wrong   *string // what settings of another type than asked for there are
}

const maxDepth = 64

// Parse reads JSON. Empty input is an empty object.
func Parse(b []byte) (Value, error) {
	p := parser{text: string(b)}
	p.space()
	if p.at == len(p.text) {
		return Value{text: "{}", compact: true, wrong: new(string)}, nil
	}
	from := p.at
	if err := p.value(0); err != nil {
		return Value{}, err
	}
	to := p.at
	if p.space(); p.at != len(p.text) {
		return Value{}, p.fail("text after the value")
	}
	return Value{text: p.text[from:to], compact: !p.spaced, wrong: new(string)}, nil
}

// Compact is JSON that is known to be right and to have no space but in strings.
func Compact(text string) Value { return Value{text: text, compact: true} }

// Wrong says which setting that was asked for holds something else, "" if none does.
func (c Value) Wrong() string {
	if c.wrong == nil {
		return ""
	}
	return *c.wrong
}

// kind is 'o' of an object, 'l' of a list, 's' of a string, 'n' of a number, 'b'
// of a truth, 0 of null.
func (c Value) kind() byte {
	if c.text == "" {
		return 0
	}
	switch c.text[0] {
	case '{':
		return 'o'
	case '[':
		return 'l'
	case '"':
		return 's'
	case 't', 'f':
		return 'b'
	case 'n':
		return 0
	}
	return 'n'
}

// parts goes through a list or an object.
type parts struct {
	of Value
	p  parser
}

func (c Value) parts() parts { return parts{c, parser{text: c.text, at: 1}} }

// next is the next item of a list, or value of an object with its key.
func (l *parts) next(key string) (k string, v Value, ok bool) {
	p := &l.p
	if p.space(); p.at >= len(p.text) || p.text[p.at] == ']' || p.text[p.at] == '}' {
		return "", Value{}, false
	}
	if p.take(',') {
		p.space()
	}
	if l.of.text[0] == '{' {
		k = p.key(key)
		p.space()
		p.at++ // the colon
		p.space()
	}
	from := p.at
	p.skip()
	return k, Value{p.text[from:p.at], l.of.compact, l.of.wrong}, true
}

// Has says whether the object has the key.
func (c Value) Has(key string) bool {
	_, ok := c.find(key)
	return ok
}

func (c Value) find(key string) (Value, bool) {
	if c.kind() != 'o' {
		return Value{}, false
	}
	for l := c.parts(); ; {
		switch k, v, ok := l.next(key); {
		case !ok:
			return Value{}, false
		case k == key:
			return v, true
		}
	}
}

// OnlyKeys refuses keys other than these, as a schema would.
func (c Value) OnlyKeys(keys ...string) error {
	if c.kind() != 'o' && c.kind() != 0 {
		return errors.New("the settings must be an object")
	}
	for _, k := range c.Keys() {
		if !contains(keys, k) {
			return errors.New("unknown setting " + k)
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// Object returns the object under key, an empty one if there is none.
func (c Value) Object(key string) Value {
	v, _ := c.find(key)
	return v
}

// String returns the text under key, or otherwise. Settings that hold something
// else there are refused, once the policy has taken them.
func (c Value) String(key, otherwise string) string {
	v, ok := c.find(key)
	if !ok || v.IsNull() {
		return otherwise
	}
	if text, ok := v.Text(); ok {
		return text
	}
	if c.wrong != nil {
		*c.wrong = key + " must be a text"
	}
	return otherwise
}

// Int returns the whole number under key, or otherwise; it refuses what is no
// whole number from low to high.
func (c Value) Int(key string, low, high, otherwise int64) (int64, error) {
	v, ok := c.find(key)
	if !ok {
		return otherwise, nil
	}
	n, ok := v.Number()
	if !ok || n != math.Trunc(n) || n < float64(low) || n > float64(high) {
		return 0, errors.New(key + " must be a whole number from " +
			strconv.FormatInt(low, 10) + " to " + strconv.FormatInt(high, 10))
	}
	return int64(n), nil
}

// Bool returns the truth under key, or otherwise.
func (c Value) Bool(key string, otherwise bool) (bool, error) {
	v, ok := c.find(key)
	if !ok {
		return otherwise, nil
	}
	if v.kind() != 'b' {
		return false, errors.New(key + " must be true or false")
	}
	return v.text[0] == 't', nil
}

// List returns the items of the list under key.
func (c Value) List(key string) ([]Value, error) {
	v, _ := c.find(key)
	if v.IsNull() {
		return nil, nil
	}
	if v.kind() != 'l' {
		return nil, errors.New(key + " must be a list")
	}
	return v.Items(), nil
}

// Len is how many items a list has, or values an object.
func (c Value) Len() (n int) {
	if k := c.kind(); k != 'o' && k != 'l' {
		return 0
	}
	for l := c.parts(); ; n++ {
		if _, _, ok := l.next(""); !ok {
			return n
		}
	}
}

// Items of a list, or values of an object.
func (c Value) Items() []Value {
	n := c.Len()
	if n == 0 {
		return nil
	}
	items := make([]Value, 0, n)
	for l := c.parts(); len(items) < n; {
		_, v, _ := l.next("")
		items = append(items, v)
	}
	return items
}

// Keys of an object.
func (c Value) Keys() []string {
	if c.kind() != 'o' {
		return nil
	}
	n := c.Len()
	keys := make([]string, 0, n)
	for l := c.parts(); len(keys) < n; {
		k, _, _ := l.next("")
		keys = append(keys, k)
	}
	return keys
}

// All goes through an object's keys and values, or through a list, whose keys
// are empty.
func (c Value) All(yield func(key string, v Value) bool) {
	if k := c.kind(); k != 'o' && k != 'l' {
		return
	}
	for l := c.parts(); ; {
		key, v, ok := l.next("")
		if !ok || !yield(key, v) {
			return
		}
	}
}

// Text is the value itself, where it is a string.
func (c Value) Text() (string, bool) {
	if c.kind() != 's' {
		return "", false
	}
	p := parser{text: c.text}
	text, _ := p.str()
	return text, true
}

// Number is the value itself, where it is a number.
func (c Value) Number() (float64, bool) {
	if c.kind() != 'n' {
		return 0, false
	}
	return parseNumber(c.text)
}

// IsNull says whether the value is null, or absent.
func (c Value) IsNull() bool { return c.kind() == 0 }

// Texts returns the strings of the list under key.
func (c Value) Texts(key string) ([]string, error) {
	items, err := c.List(key)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, i := range items {
		text, ok := i.Text()
		if !ok {
			return nil, errors.New(key + " must be a list of strings")
		}
		out = append(out, text)
	}
	return out, nil
}

// JSON is the value as JSON without space.
func (c Value) JSON() string {
	if c.text == "" {
		return "null"
	}
	if c.compact && !hasByte(c.text, '\\') {
		return c.text
	}
	j := &Writer{}
	c.append(j)
	return string(j.Bytes())
}

func hasByte(s string, b byte) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == b {
			return true
		}
	}
	return false
}

func (c Value) append(j *Writer) {
	switch c.kind() {
	case 'o':
		j.Open('{')
		for key, v := range c.All {
			j.Key(key)
			v.append(j)
		}
		j.Close('}')
	case 'l':
		j.Open('[')
		for _, v := range c.All {
			v.append(j)
		}
		j.Close(']')
	case 's':
		text, _ := c.Text()
		j.Text(text)
	default:
		j.Value(c.text)
	}
}
