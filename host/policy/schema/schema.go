// Package schema checks a config against the schema that a policy's manifest
// has for it, so that a mistake is told by its place, before a guest sees it.
// Both are foreign bytes: it is total, and bounded by their size and depth.
//
// Of JSON schema it knows type, enum, properties, required,
// additionalProperties, items, minimum, maximum, minLength, maxLength, minItems
// and maxItems; it passes over what it does not know.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep a config is looked into.
const maxDepth = 64

// Schema is what a value must be.
type Schema struct {
	Type       types              `json:"type"`
	Enum       []any              `json:"enum"`
	Properties map[string]*Schema `json:"properties"`
	Required   []string           `json:"required"`
	// Additional is what properties that are not listed must be; nil for anything.
	Additional *orFalse `json:"additionalProperties"`
	Items      *Schema  `json:"items"`
	Minimum    *float64 `json:"minimum"`
	Maximum    *float64 `json:"maximum"`
	MinLength  *int     `json:"minLength"`
	MaxLength  *int     `json:"maxLength"`
	MinItems   *int     `json:"minItems"`
	MaxItems   *int     `json:"maxItems"`

	listed []string // Enum, as JSON
}

// types is one name, or several of which one must fit.
type types []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *types) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// orFalse is a schema, or false for nothing at all.
type orFalse struct {
	never  bool
	schema *Schema
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *orFalse) UnmarshalJSON(b []byte) error {
	var allowed bool
	if json.Unmarshal(b, &allowed) == nil {
		o.never = !allowed
		return nil
	}
	return json.Unmarshal(b, &o.schema)
}

// Check says where and why a config is not what its schema wants; path is what
// the config is called. No schema wants anything. No config is an empty object.
func Check(schema, config []byte, path string) error {
	if len(bytes.TrimSpace(schema)) == 0 {
		return nil
	}
	var s *Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("the manifest's configSchema cannot be read: %w", err)
	}
	if s == nil {
		return nil
	}
	if len(bytes.TrimSpace(config)) == 0 {
		config = []byte("{}")
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(config))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return fmt.Errorf("%s: not JSON: %w", path, err)
	}
	c := checker{left: maxWork}
	c.check(s, value, location{name: path})
	return errors.Join(c.faults...)
}

// checker gathers what is wrong. A schema and a config multiply: each item of a
// list is held against each name that is required of it. So both what is told
// and what is looked at have an end.
type checker struct {
	faults []error
	left   int // steps that may still be made
}

const (
	maxFaults = 32
	maxWork   = 1 << 20
)

// location is where in the config something lies. It is made into text for what is
// told alone.
type location struct {
	up    *location
	name  string // of a property, or of the config
	index int    // of an item, where there is no name
	depth int
}

func (p location) property(name string) location {
	return location{up: &p, name: name, depth: p.depth + 1}
}
func (p location) item(i int) location { return location{up: &p, index: i, depth: p.depth + 1} }

func (p location) String() string {
	switch {
	case p.up == nil:
		return p.name
	case p.name != "":
		return p.up.String() + "." + short(p.name)
	}
	return fmt.Sprintf("%s[%d]", p.up, p.index)
}

// fault notes what is wrong there.
func (c *checker) fault(at location, format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Errorf("%s: "+format, append([]any{at}, args...)...))
		return
	}
	c.stop(at, "there are more faults than are told here")
}

// spend says whether another n steps may be made.
func (c *checker) spend(n int, at location) bool {
	if c.left <= 0 {
		return false
	}
	if c.left -= n; c.left <= 0 {
		c.stop(at, "it is too much to be checked by its schema")
	}
	return c.left > 0
}

func (c *checker) stop(at location, why string) {
	c.left = 0
	c.faults = append(c.faults[:min(len(c.faults), maxFaults)], fmt.Errorf("%s: %s", at, why))
}

func (c *checker) check(s *Schema, v any, at location) {
	if s == nil || !c.spend(1+len(s.Enum)+len(s.Required), at) {
		return
	}
	if at.depth > maxDepth {
		c.fault(at, "nested deeper than %d", maxDepth)
		return
	}
	if len(s.Type) > 0 && !slices.ContainsFunc(s.Type, func(name string) bool { return is(v, name) }) {
		c.fault(at, "it is %s, want %s", typeOf(v), short(strings.Join(s.Type, " or ")))
		return
	}
	if len(s.Enum) > 0 && !s.lists(text(v)) {
		c.fault(at, "it is %s, want one of %s", short(text(v)), short(text(s.Enum)))
		return
	}
	switch v := v.(type) {
	case map[string]any:
		c.checkObject(s, v, at)
	case []any:
		c.within(len(v), s.MinItems, s.MaxItems, at, "items")
		for i := range v {
			c.check(s.Items, v[i], at.item(i))
		}
	case string:
		c.within(utf8.RuneCountInString(v), s.MinLength, s.MaxLength, at, "characters")
	case json.Number:
		c.checkNumber(s, v, at)
	}
}

// lists says whether a value, as JSON, is one that the schema lists.
func (s *Schema) lists(value string) bool {
	for len(s.listed) < len(s.Enum) {
		s.listed = append(s.listed, text(s.Enum[len(s.listed)]))
	}
	return slices.Contains(s.listed, value)
}

func (c *checker) checkObject(s *Schema, v map[string]any, at location) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			c.fault(at.property(name), "it is required")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if c.left <= 0 {
			return
		}
		in := at.property(name)
		if known, ok := s.Properties[name]; ok {
			c.check(known, v[name], in)
			continue
		}
		switch {
		case s.Additional == nil:
		case s.Additional.never:
			c.fault(in, "there is no such setting; there are %s", short(strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")))
		default:
			c.check(s.Additional.schema, v[name], in)
		}
	}
}

func (c *checker) checkNumber(s *Schema, v json.Number, at location) {
	f, err := v.Float64()
	switch {
	case err != nil:
		c.fault(at, "%s is too large a number", short(v.String()))
	case s.Minimum != nil && f < *s.Minimum:
		c.fault(at, "it is %s, want at least %v", short(v.String()), *s.Minimum)
	case s.Maximum != nil && f > *s.Maximum:
		c.fault(at, "it is %s, want at most %v", short(v.String()), *s.Maximum)
	}
}

func (c *checker) within(n int, least, most *int, at location, what string) {
	switch {
	case least != nil && n < *least:
		c.fault(at, "it has %d %s, want at least %d", n, what, *least)
	case most != nil && n > *most:
		c.fault(at, "it has %d %s, want at most %d", n, what, *most)
	}
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

func is(v any, name string) bool {
	if name != "integer" {
		return typeOf(v) == name
	}
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	f, err := n.Float64()
	return err == nil && f == math.Trunc(f)
}

// text is a value as JSON.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// short is foreign text, cut to what a message can hold.
func short(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
