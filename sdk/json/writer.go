package json

import (
	"strconv"
	"unicode/utf8"
)

// Writer builds an answer in JSON without encoding/json.
type Writer struct{ b []byte }

// Bytes of what was built.
func (j *Writer) Bytes() []byte { return j.b }

// Reset begins anew, in the memory of what was built before.
func (j *Writer) Reset() *Writer {
	j.b = j.b[:0]
	return j
}

// Raw appends text as it is.
func (j *Writer) Raw(text string) *Writer {
	j.b = append(j.b, text...)
	return j
}

// comma separates from what precedes it in the same object or list.
func (j *Writer) comma() {
	if n := len(j.b); n > 0 && j.b[n-1] != '{' && j.b[n-1] != '[' && j.b[n-1] != ':' {
		j.b = append(j.b, ',')
	}
}

// Open begins an object or list by its bracket, Close ends it.
func (j *Writer) Open(bracket byte) *Writer {
	j.comma()
	j.b = append(j.b, bracket)
	return j
}

// Close ends an object or a list by its bracket.
func (j *Writer) Close(bracket byte) *Writer {
	j.b = append(j.b, bracket)
	return j
}

// Key begins a member of an object.
func (j *Writer) Key(key string) *Writer {
	j.Text(key)
	j.b = append(j.b, ':')
	return j
}

// Text is a string value.
func (j *Writer) Text(s string) *Writer {
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

func (j *Writer) escaped(c byte) {
	const hex = "0123456789abcdef"
	if c < ' ' {
		j.b = append(j.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		return
	}
	j.b = append(j.b, '\\', c)
}

// Int is a number value.
func (j *Writer) Int(n int64) *Writer {
	j.comma()
	j.b = strconv.AppendInt(j.b, n, 10)
	return j
}

// Bool is true or false.
func (j *Writer) Bool(v bool) *Writer {
	j.comma()
	j.b = strconv.AppendBool(j.b, v)
	return j
}

// Member is a member with a string value; nothing if it is empty.
func (j *Writer) Member(key, value string) *Writer {
	if value == "" {
		return j
	}
	return j.Key(key).Text(value)
}

// Value is JSON as it is.
func (j *Writer) Value(json string) *Writer {
	j.comma()
	return j.Raw(json)
}

// Texts is a list of strings.
func (j *Writer) Texts(list []string) *Writer {
	j.Open('[')
	for _, t := range list {
		j.Text(t)
	}
	return j.Close(']')
}

// MemberTexts is a member with a list of strings; nothing if that is empty.
func (j *Writer) MemberTexts(key string, list []string) *Writer {
	if len(list) == 0 {
		return j
	}
	return j.Key(key).Texts(list)
}
