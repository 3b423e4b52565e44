package sdk

import (
	"strconv"
	"unicode/utf8"
)

// JSON builds an answer in JSON without encoding/json.
type JSON struct{ b []byte }

// Bytes of what was built.
func (j *JSON) Bytes() []byte { return j.b }

// Reset begins anew, in the memory of what was built before.
func (j *JSON) Reset() *JSON {
	j.b = j.b[:0]
	return j
}

// Raw appends text as it is.
func (j *JSON) Raw(text string) *JSON {
	j.b = append(j.b, text...)
	return j
}

// comma separates from what precedes it in the same object or list.
func (j *JSON) comma() {
	if n := len(j.b); n > 0 && j.b[n-1] != '{' && j.b[n-1] != '[' && j.b[n-1] != ':' {
		j.b = append(j.b, ',')
	}
}

// Open begins an object or list by its bracket, Close ends it.
func (j *JSON) Open(bracket byte) *JSON {
	j.comma()
	j.b = append(j.b, bracket)
	return j
}

// Close ends an object or a list by its bracket.
func (j *JSON) Close(bracket byte) *JSON {
	j.b = append(j.b, bracket)
	return j
}

// Key begins a member of an object.
func (j *JSON) Key(key string) *JSON {
	j.Text(key)
	j.b = append(j.b, ':')
	return j
}

// Text is a string value.
func (j *JSON) Text(s string) *JSON {
	j.comma()
	j.b = append(j.b, '"')
	from := 0
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			j.b = append(j.b, s[from:i]...)
			r, size := utf8.DecodeRuneInString(s[i:])
			j.b = utf8.AppendRune(j.b, r)
			i += size
			from = i
		case c == '"' || c == '\\' || c < ' ':
			j.b = append(j.b, s[from:i]...)
			j.escaped(c)
			i++
			from = i
		default:
			i++
		}
	}
	j.b = append(append(j.b, s[from:]...), '"')
	return j
}

func (j *JSON) escaped(c byte) {
	const hex = "0123456789abcdef"
	if c < ' ' {
		j.b = append(j.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		return
	}
	j.b = append(j.b, '\\', c)
}

// Int is a number value.
func (j *JSON) Int(n int64) *JSON {
	j.comma()
	j.b = strconv.AppendInt(j.b, n, 10)
	return j
}

// Bool is true or false.
func (j *JSON) Bool(v bool) *JSON {
	j.comma()
	j.b = strconv.AppendBool(j.b, v)
	return j
}

// Member is a member with a string value; nothing if it is empty.
func (j *JSON) Member(key, value string) *JSON {
	if value == "" {
		return j
	}
	return j.Key(key).Text(value)
}

// Value is JSON as it is.
func (j *JSON) Value(json string) *JSON {
	j.comma()
	return j.Raw(json)
}
