package json

import (
	"errors"
	"strconv"

	"github.com/berth-dev/berth/sdk/internal/text"
)

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
	f, scale, rest, ok := digits(rest)
	if !ok {
		return 0, false
	}
	if rest != "" {
		e, ok := text.ParseInt(rest[1:])
		if rest[0] != 'e' && rest[0] != 'E' || !ok || e > 400 || e < -400 {
			return 0, false
		}
		scale += int(e)
	}
	if f = scaled(f, scale); neg {
		f = -f
	}
	return f, f-f == 0 // neither infinite nor NaN
}

// digits reads a number up to its exponent: f times ten to the scale.
func digits(s string) (f float64, scale int, rest string, ok bool) {
	point := false
	for ; s != ""; s = s[1:] {
		c := s[0]
		if c == '.' && !point && ok {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		f, ok = f*10+float64(c-'0'), true
		if point {
			scale--
		}
	}
	return f, scale, s, ok
}

// scaled is f times ten to the scale.
func scaled(f float64, scale int) float64 {
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
	return f
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
