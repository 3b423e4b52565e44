package sdk

import (
	"errors"
	"math"
	"strconv"
)

// Config is a policy's settings, or a part of them: a JSON value, read by a
// decoder of a few kilobytes, since encoding/json costs a guest 240. It is looked
// through anew for each value that is asked of it, and holds nothing but its
// text: keep what is needed often.
// The zero Config is an empty object.
type Config struct {
	text    string  // that was found to be JSON, without space before or behind
	compact bool    // has no space within, but in strings
	wrong   *string // what settings of another type than asked for there are
}

const maxDepth = 64

// ParseConfig reads JSON. Empty input is an empty object.
func ParseConfig(b []byte) (Config, error) {
	p := parser{text: string(b)}
	p.space()
	if p.at == len(p.text) {
		return Config{text: "{}", compact: true, wrong: new(string)}, nil
	}
	from := p.at
	if err := p.value(0); err != nil {
		return Config{}, err
	}
	to := p.at
	if p.space(); p.at != len(p.text) {
		return Config{}, p.fail("text after the value")
	}
	return Config{text: p.text[from:to], compact: !p.spaced, wrong: new(string)}, nil
}

// kind is 'o' of an object, 'l' of a list, 's' of a string, 'n' of a number, 'b'
// of a truth, 0 of null.
func (c Config) kind() byte {
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
	of Config
	p  parser
}

func (c Config) parts() parts { return parts{c, parser{text: c.text, at: 1}} }

// next is the next item of a list, or value of an object with its key.
func (l *parts) next(key string) (k string, v Config, ok bool) {
	p := &l.p
	if p.space(); p.at >= len(p.text) || p.text[p.at] == ']' || p.text[p.at] == '}' {
		return "", Config{}, false
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
	return k, Config{p.text[from:p.at], l.of.compact, l.of.wrong}, true
}

// Has says whether the object has the key.
func (c Config) Has(key string) bool {
	_, ok := c.find(key)
	return ok
}

func (c Config) find(key string) (Config, bool) {
	if c.kind() != 'o' {
		return Config{}, false
	}
	for l := c.parts(); ; {
		switch k, v, ok := l.next(key); {
		case !ok:
			return Config{}, false
		case k == key:
			return v, true
		}
	}
}

// OnlyKeys refuses keys other than these, as a schema would.
func (c Config) OnlyKeys(keys ...string) error {
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
func (c Config) Object(key string) Config {
	v, _ := c.find(key)
	return v
}

// String returns the text under key, or otherwise. Settings that hold something
// else there are refused, once the policy has taken them.
func (c Config) String(key, otherwise string) string {
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
func (c Config) Int(key string, low, high, otherwise int64) (int64, error) {
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
func (c Config) Bool(key string, otherwise bool) (bool, error) {
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
func (c Config) List(key string) ([]Config, error) {
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
func (c Config) Len() (n int) {
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
func (c Config) Items() []Config {
	n := c.Len()
	if n == 0 {
		return nil
	}
	items := make([]Config, 0, n)
	for l := c.parts(); len(items) < n; {
		_, v, _ := l.next("")
		items = append(items, v)
	}
	return items
}

// Keys of an object.
func (c Config) Keys() []string {
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
func (c Config) All(yield func(key string, v Config) bool) {
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
func (c Config) Text() (string, bool) {
	if c.kind() != 's' {
		return "", false
	}
	p := parser{text: c.text}
	text, _ := p.str()
	return text, true
}

// Number is the value itself, where it is a number.
func (c Config) Number() (float64, bool) {
	if c.kind() != 'n' {
		return 0, false
	}
	return parseNumber(c.text)
}

// IsNull says whether the value is null, or absent.
func (c Config) IsNull() bool { return c.kind() == 0 }

type parser struct {
	text   string
	at     int
	spaced bool // space was found
}

func (p *parser) fail(what string) error {
	return errors.New(what + " at byte " + strconv.Itoa(p.at))
}

func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
			p.spaced = true
		default:
			return
		}
	}
}

// key is an object's next key, which is known to be one. It is mostly the one
// that is looked for, or none of interest.
func (p *parser) key(wanted string) string {
	from := p.at + 1
	if to := from + len(wanted); to < len(p.text) && p.text[to] == '"' && p.text[from:to] == wanted && wanted != "" && !hasByte(wanted, '\\') {
		p.at = to + 1
		return wanted
	}
	k, _ := p.str()
	return k
}

// skip goes over a value that is known to be JSON.
func (p *parser) skip() {
	text, at := p.text, p.at
	for depth := 0; at < len(text); {
		switch c := text[at]; c {
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // of what it is in
				p.at = at
				return
			}
			if depth--; depth == 0 {
				p.at = at + 1
				return
			}
		case '"':
			if at = quoted(text, at); depth == 0 {
				p.at = at
				return
			}
			continue
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				p.at = at
				return
			}
		}
		at++
	}
	p.at = at
}

// quoted is where a string that is known to be one ends.
func quoted(text string, at int) int {
	for at++; at < len(text); at++ {
		switch text[at] {
		case '"':
			return at + 1
		case '\\':
			at++
		}
	}
	return at
}

func (p *parser) value(depth int) error {
	if depth > maxDepth {
		return p.fail("nested too deeply")
	}
	p.space()
	if p.at == len(p.text) {
		return p.fail("unexpected end")
	}
	switch c := p.text[p.at]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.list(depth)
	case c == '"':
		_, err := p.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	return p.word()
}

func (p *parser) word() error {
	for _, w := range [...]string{"true", "false", "null"} {
		if len(p.text)-p.at >= len(w) && p.text[p.at:p.at+len(w)] == w {
			p.at += len(w)
			return nil
		}
	}
	return p.fail("no JSON value")
}

func (p *parser) number() error {
	from := p.at
	for p.at < len(p.text) {
		c := p.text[p.at]
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		p.at++
	}
	if _, ok := parseNumber(p.text[from:p.at]); !ok {
		return p.fail("no number")
	}
	return nil
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

func (p *parser) list(depth int) error {
	p.at++
	for first := true; ; first = false {
		if p.space(); p.take(']') {
			return nil
		}
		if !first && !p.take(',') {
			return p.fail("expected , or ]")
		}
		if err := p.value(depth + 1); err != nil {
			return err
		}
	}
}

func (p *parser) object(depth int) error {
	p.at++
	for first := true; ; first = false {
		if p.space(); p.take('}') {
			return nil
		}
		if !first && !p.take(',') {
			return p.fail("expected , or }")
		}
		if p.space(); p.at == len(p.text) || p.text[p.at] != '"' {
			return p.fail("expected a key")
		}
		if _, err := p.str(); err != nil {
			return err
		}
		if p.space(); !p.take(':') {
			return p.fail("expected :")
		}
		if err := p.value(depth + 1); err != nil {
			return err
		}
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
	from, text := p.at+1, p.text
	for at := from; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			p.at = at + 1
			return text[from:at], nil
		case c == '\\':
			p.at = at
			return p.escaped(from)
		case c < ' ':
			p.at = at
			return "", p.fail("control character in a string")
		}
	}
	p.at = len(text)
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
		text, ok := i.Text()
		if !ok {
			return nil, errors.New(key + " must be a list of strings")
		}
		out = append(out, text)
	}
	return out, nil
}

// JSON is the value as JSON without space.
func (c Config) JSON() string {
	if c.text == "" {
		return "null"
	}
	if c.compact && !hasByte(c.text, '\\') {
		return c.text
	}
	j := &JSON{}
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

func (c Config) append(j *JSON) {
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
