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

// mostDepth bounds how deep a config is looked into.
const mostDepth = 64

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
	return errors.Join(s.check(value, path, 0)...)
}

func (s *Schema) check(v any, path string, depth int) []error {
	if s == nil {
		return nil
	}
	if depth > mostDepth {
		return []error{fmt.Errorf("%s: nested deeper than %d", path, mostDepth)}
	}
	if len(s.Type) > 0 && !slices.ContainsFunc(s.Type, func(name string) bool { return is(v, name) }) {
		return []error{fmt.Errorf("%s: it is %s, want %s", path, typeOf(v), strings.Join(s.Type, " or "))}
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(one any) bool { return text(one) == text(v) }) {
		return []error{fmt.Errorf("%s: it is %s, want one of %s", path, text(v), text(s.Enum))}
	}
	switch v := v.(type) {
	case map[string]any:
		return s.checkObject(v, path, depth)
	case []any:
		errs := within(len(v), s.MinItems, s.MaxItems, path, "items")
		for i := range v {
			errs = append(errs, s.Items.check(v[i], fmt.Sprintf("%s[%d]", path, i), depth+1)...)
		}
		return errs
	case string:
		return within(utf8.RuneCountInString(v), s.MinLength, s.MaxLength, path, "characters")
	case json.Number:
		return s.checkNumber(v, path)
	}
	return nil
}

func (s *Schema) checkObject(v map[string]any, path string, depth int) (errs []error) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			errs = append(errs, fmt.Errorf("%s.%s: it is required", path, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		at := path + "." + name
		if known, ok := s.Properties[name]; ok {
			errs = append(errs, known.check(v[name], at, depth+1)...)
			continue
		}
		switch {
		case s.Additional == nil:
		case s.Additional.never:
			errs = append(errs, fmt.Errorf("%s: there is no such setting; there are %s", at, strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")))
		default:
			errs = append(errs, s.Additional.schema.check(v[name], at, depth+1)...)
		}
	}
	return errs
}

func (s *Schema) checkNumber(v json.Number, path string) []error {
	f, err := v.Float64()
	switch {
	case err != nil:
		return []error{fmt.Errorf("%s: %s is too large a number", path, v)}
	case s.Minimum != nil && f < *s.Minimum:
		return []error{fmt.Errorf("%s: it is %s, want at least %v", path, v, *s.Minimum)}
	case s.Maximum != nil && f > *s.Maximum:
		return []error{fmt.Errorf("%s: it is %s, want at most %v", path, v, *s.Maximum)}
	}
	return nil
}

func within(n int, least, most *int, path, what string) []error {
	switch {
	case least != nil && n < *least:
		return []error{fmt.Errorf("%s: it has %d %s, want at least %d", path, n, what, *least)}
	case most != nil && n > *most:
		return []error{fmt.Errorf("%s: it has %d %s, want at most %d", path, n, what, *most)}
	}
	return nil
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

// text is a value as JSON, cut to what a message can hold.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(b) > 200 {
		return string(b[:200]) + "…"
	}
	return string(b)
}
