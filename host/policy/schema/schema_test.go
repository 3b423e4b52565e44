package schema

import (
	"strings"
	"testing"
)

func TestConfigsAreCheckedBySchemas(t *testing.T) {
	t.Parallel()
	const weights = `{"type":"object","additionalProperties":false,"required":["mode"],"properties":{
		"mode":{"enum":["least","most"]},
		"weights":{"type":"array","maxItems":2,"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string","minLength":1},"weight":{"type":"integer","minimum":1,"maximum":100}}}},
		"by":{"type":"object","additionalProperties":{"type":["integer","null"]}}}}`
	for name, c := range map[string]struct {
		schema, config string
		want           []string
	}{
		"what the schema wants":      {weights, `{"mode":"least","weights":[{"name":"cpu","weight":3}],"by":{"a":1,"b":null}}`, nil},
		"no schema":                  {"", `{"anything":[1]}`, nil},
		"true as additional":         {`{"additionalProperties":true}`, `{"a":1}`, nil},
		"an unknown keyword":         {`{"pattern":"^a","type":"object"}`, `{}`, nil},
		"an integer with a fraction": {`{"properties":{"n":{"type":"integer"}}}`, `{"n":1.5}`, []string{"config.n: it is number, want integer"}},
		"an integer written as 1.0":  {`{"properties":{"n":{"type":"integer"}}}`, `{"n":1.0}`, nil},
		"a setting that is required": {weights, ``, []string{"config.mode: it is required"}},
		"a value of no enum":         {weights, `{"mode":"some"}`, []string{`config.mode: it is "some", want one of ["least","most"]`}},
		"a setting that is not there": {weights, `{"mode":"most","wieghts":[]}`,
			[]string{"config.wieghts: there is no such setting; there are by, mode, weights"}},
		"several faults, each by its place": {weights, `{"mode":"most","weights":[{"name":"","weight":0},{"weight":"x"},{"name":"c"}],"by":{"a":"b"}}`,
			[]string{"config.weights: it has 3 items, want at most 2", "config.weights[0].name: it has 0 characters, want at least 1",
				"config.weights[0].weight: it is 0, want at least 1", "config.weights[1].name: it is required",
				"config.weights[1].weight: it is string, want integer", "config.by.a: it is string, want integer or null"}},
		"a number beyond all":   {`{"properties":{"n":{"maximum":1}}}`, `{"n":1e999}`, []string{"too large a number"}},
		"no JSON":               {weights, `{`, []string{"config: not JSON"}},
		"a schema that is none": {`[]`, `{}`, []string{"configSchema cannot be read"}},
		"too deep":              {`{}`, strings.Repeat("[", 10) + strings.Repeat("]", 10), nil},
	} {
		err := Check([]byte(c.schema), []byte(c.config), "config")
		if len(c.want) == 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"items":{"type":"integer"}}},"additionalProperties":false}`), []byte(`{"a":[1,2.5],"b":null}`))
	f.Add([]byte(`{"properties":{"a":null},"items":{}}`), []byte(`{"a":[[[]]]}`))
	f.Fuzz(func(_ *testing.T, schema, config []byte) { _ = Check(schema, config, "config") })
}
