package sdk

import (
	"errors"
	"math"
	"strconv"
)

// Config is a policy's settings, or a part of them: a JSON value, read by a
// decoder of a few kilobytes, since encoding/json costs a guest 240.
// The zero Config is an empty object.
type Config struct {
	kind  byte // 'o' object, 'l' list, 's' string, 'n' number, 'b' bool, 0 null
	text  string
	num   float64
	keys  []string
	items []Config
	wrong *string // what settings of another type than asked for there are
}

const maxDepth = 64

// ParseConfig reads JSON. Empty input is an empty object.
func ParseConfig(b []byte) (Config, error) {
	p := parser{text: string(b), wrong: new(string)}
	p.space()
	if p.at == len(p.text) {
		return Config{kind: 'o', wrong: p.wrong}, nil
	}
	v, err := p.value(0)
	if err != nil {
		return Config{}, err
	}
	if p.space(); p.at != len(p.text) {
		return Config{}, p.fail("text after the value")
	}
	return v, nil
}

// Has says whether the object has the key.
func (c Config) Has(key string) bool { return c.find(key) != nil }

func (c Config) find(key string) *Config {
	for i := range c.keys {
		if c.keys[i] == key {
			return &c.items[i]
		}
	}
	return nil
}

// OnlyKeys refuses keys other than these, as a schema would.
func (c Config) OnlyKeys(keys ...string) error {
	if c.kind != 'o' && c.kind != 0 {
		return errors.New("the settings must be an object")
	}
	for _, k := range c.keys {
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
func (c Config) Object(key string) Config {
	if v := c.find(key); v != nil {
		return *v
	}
	return Config{}
}

// String returns the text under key, or otherwise. Settings that hold something
// else there are refused, once the policy has taken them.
func (c Config) String(key, otherwise string) string {
	v := c.find(key)
	switch {
	case v == nil || v.kind == 0:
		return otherwise
	case v.kind == 's':
		return v.text
	case c.wrong != nil:
		*c.wrong = key + " must be a text"
	}
	return otherwise
}

// Int returns the whole number under key, or otherwise; it refuses what is no
// whole number from low to high.
func (c Config) Int(key string, low, high, otherwise int64) (int64, error) {
	v := c.find(key)
	if v == nil {
		return otherwise, nil
	}
	if v.kind != 'n' || v.num != math.Trunc(v.num) || v.num < float64(low) || v.num > float64(high) {
		return 0, errors.New(key + " must be a whole number from " +
			strconv.FormatInt(low, 10) + " to " + strconv.FormatInt(high, 10))
	}
	return int64(v.num), nil
}

// Bool returns the truth under key, or otherwise.
func (c Config) Bool(key string, otherwise bool) (bool, error) {
	v := c.find(key)
	if v == nil {
		return otherwise, nil
	}
	if v.kind != 'b' {
		return false, errors.New(key + " must be true or false")
	}
	return v.num != 0, nil
}

// List returns the items of the list under key.
func (c Config) List(key string) ([]Config, error) {
	v := c.find(key)
	if v == nil || v.kind == 0 {
		return nil, nil
	}
	if v.kind != 'l' {
		return nil, errors.New(key + " must be a list")
	}
	return v.items, nil
}

// Items of a list, or values of an object.
func (c Config) Items() []Config { return c.items }

// Keys of an object.
func (c Config) Keys() []string { return c.keys }

// Text is the value itself, where it is a string.
func (c Config) Text() (string, bool) { return c.text, c.kind == 's' }

// Number is the value itself, where it is a number.
func (c Config) Number() (float64, bool) { return c.num, c.kind == 'n' }

// IsNull says whether the value is null, or absent.
func (c Config) IsNull() bool { return c.kind == 0 }

type parser struct {
	text  string
	at    int
	wrong *string
}

func (p *parser) fail(what string) error {
	return errors.New(what + " at byte " + strconv.Itoa(p.at))
}

func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) (Config, error) {
	if depth > maxDepth {
		return Config{}, p.fail("nested too deeply")
	}
	p.space()
	if p.at == len(p.text) {
		return Config{}, p.fail("unexpected end")
	}
	switch c := p.text[p.at]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.list(depth)
	case c == '"':
		s, err := p.str()
		return Config{kind: 's', text: s}, err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	return p.word()
}

func (p *parser) word() (Config, error) {
	for _, w := range [...]struct {
		text string
		v    Config
	}{{"true", Config{kind: 'b', num: 1}}, {"false", Config{kind: 'b'}}, {"null", Config{}}} {
		if len(p.text)-p.at >= len(w.text) && p.text[p.at:p.at+len(w.text)] == w.text {
			p.at += len(w.text)
			return w.v, nil
		}
	}
	return Config{}, p.fail("no JSON value")
}

func (p *parser) number() (Config, error) {
	from := p.at
	for p.at < len(p.text) {
		c := p.text[p.at]
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		p.at++
	}
	text := p.text[from:p.at]
	f, ok := parseNumber(text)
	if !ok {
		return Config{}, p.fail("no number")
	}
	return Config{kind: 'n', num: f, text: text}, nil
}

// parseNumber reads a JSON number. It may differ from the nearest float64 in
// its last bits, which settings do not feel; strconv's exact way costs 20 KB.
func parseNumber(s string) (f float64, ok bool) {
	rest, neg := s, false
	if rest != "" && rest[0] == '-' {
		rest, neg = rest[1:], true
	}
	digits, scale := 0, 0
	for point := false; rest != ""; rest = rest[1:] {
		c := rest[0]
		if c == '.' && !point && digits > 0 {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		f = f*10 + float64(c-'0')
		digits++
		if point {
			scale--
		}
	}
	if digits == 0 {
		return 0, false
	}
	if rest != "" {
		e, ok := parseInt(rest[1:])
		if rest[0] != 'e' && rest[0] != 'E' || !ok || e > 400 || e < -400 {
			return 0, false
		}
		scale += int(e)
	}
	for ; scale > 0; scale-- {
		f *= 10
	}
	for scale < 0 {
		div := 1.0
		for ; scale < 0 && div < 1e300; scale++ {
			div *= 10
		}
		f /= div
	}
	if neg {
		f = -f
	}
	return f, f-f == 0 // neither infinite nor NaN
}

func (p *parser) list(depth int) (Config, error) {
	out := Config{kind: 'l'}
	p.at++
	for {
		if p.space(); p.take(']') {
			return out, nil
		}
		if len(out.items) > 0 && !p.take(',') {
			return Config{}, p.fail("expected , or ]")
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return Config{}, err
		}
		out.items = append(out.items, v)
	}
}

func (p *parser) object(depth int) (Config, error) {
	out := Config{kind: 'o', wrong: p.wrong}
	p.at++
	for {
		if p.space(); p.take('}') {
			return out, nil
		}
		if len(out.items) > 0 && !p.take(',') {
			return Config{}, p.fail("expected , or }")
		}
		if p.space(); p.at == len(p.text) || p.text[p.at] != '"' {
			return Config{}, p.fail("expected a key")
		}
		key, err := p.str()
		if err != nil {
			return Config{}, err
		}
		if p.space(); !p.take(':') {
			return Config{}, p.fail("expected :")
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return Config{}, err
		}
		out.keys, out.items = append(out.keys, key), append(out.items, v)
	}
}

func (p *parser) take(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) str() (string, error) {
	from := p.at + 1
	for p.at = from; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return p.text[from : p.at-1], nil
		case c == '\\':
			return p.escaped(from)
		case c < ' ':
			return "", p.fail("control character in a string")
		}
	}
	return "", p.fail("unterminated string")
}

func (p *parser) escaped(from int) (string, error) {
	out := []byte(p.text[from:p.at])
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '"':
			return string(out), nil
		case c < ' ':
			return "", p.fail("control character in a string")
		case c != '\\':
			out = append(out, c)
		default:
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
		}
	}
	return "", p.fail("unterminated string")
}

func (p *parser) escape(out []byte) ([]byte, error) {
	if p.at == len(p.text) {
		return nil, p.fail("unterminated string")
	}
	c := p.text[p.at]
	p.at++
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	for i := 0; i < len(from); i++ {
		if from[i] == c {
			return append(out, to[i]), nil
		}
	}
	if c != 'u' {
		return nil, p.fail("unknown escape")
	}
	r, err := p.hex()
	if err != nil {
		return nil, err
	}
	if after := p.at; r >= 0xd800 && r < 0xdc00 && len(p.text)-p.at > 1 && p.text[p.at] == '\\' && p.text[p.at+1] == 'u' {
		p.at += 2
		low, err := p.hex()
		if err != nil {
			return nil, err
		}
		if low >= 0xdc00 && low < 0xe000 {
			r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
		} else {
			p.at = after // half a pair, and then something else
		}
	}
	return append(out, string(r)...), nil
}

func (p *parser) hex() (rune, error) {
	if len(p.text)-p.at < 4 {
		return 0, p.fail("unterminated string")
	}
	var n rune
	for i := 0; i < 4; i++ {
		c := p.text[p.at]
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, p.fail("no hex digits")
		}
		p.at++
	}
	return n, nil
}

// Texts returns the strings of the list under key.
func (c Config) Texts(key string) ([]string, error) {
	items, err := c.List(key)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, i := range items {
		if i.kind != 's' {
			return nil, errors.New(key + " must be a list of strings")
		}
		out = append(out, i.text)
	}
	return out, nil
}

// JSON is the value as JSON.
func (c Config) JSON() string {
	j := &JSON{}
	c.append(j)
	return string(j.Bytes())
}

func (c Config) append(j *JSON) {
	switch c.kind {
	case 'o':
		j.Open('{')
		for i, key := range c.keys {
			j.Key(key)
			c.items[i].append(j)
		}
		j.Close('}')
	case 'l':
		j.Open('[')
		for _, i := range c.items {
			i.append(j)
		}
		j.Close(']')
	case 's':
		j.Text(c.text)
	case 'n':
		j.Value(c.text)
	case 'b':
		j.Bool(c.num != 0)
	default:
		j.Value("null")
	}
}
