package schema

import (
	"fmt"
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
		"a setting that is not there": {weights, `{"mode":"most","weight":[]}`,
			[]string{"config.weight: there is no such setting; there are by, mode, weights"}},
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

// TestWhatMultipliesHasAnEnd: a schema and a config of some hundred kilobytes
// must not make gigabytes of faults, nor keep the host busy.
func TestWhatMultipliesHasAnEnd(t *testing.T) {
	t.Parallel()
	const many = 20_000
	names := strings.Repeat(`"abc",`, many) + `"abc"`
	unknown := make([]string, many)
	for i := range unknown {
		unknown[i] = fmt.Sprintf(`"k%d":0`, i)
	}
	keys := "{" + strings.Join(unknown, ",") + "}"
	items := "[" + strings.Repeat("{},", many) + "{}]"
	for name, c := range map[string][2]string{
		"each item lacks each name":  {`{"items":{"required":[` + names + `]}}`, items},
		"no item is in a long list":  {`{"items":{"enum":[` + names + `]}}`, items},
		"no name is a setting":       {`{"additionalProperties":false,"properties":` + strings.ReplaceAll(keys, ":0", `s":{}`) + `}`, keys},
		"each item has a long place": {`{"additionalProperties":{"items":{"type":"string"}}}`, `{"` + strings.Repeat("x", 1<<20) + `":` + items + `}`},
	} {
		err := Check([]byte(c[0]), []byte(c[1]), "config")
		if err == nil || len(err.Error()) > maxSaid {
			t.Errorf("%s: told in %d bytes, want an error in at most %d", name, len(fmt.Sprint(err)), maxSaid)
		}
	}
}

// maxSaid is what the faults of a config can take: each a place as deep as is
// looked, and two texts.
const maxSaid = (maxFaults + 1) * (maxDepth + 4) * 250

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"items":{"type":"integer"}}},"additionalProperties":false}`), []byte(`{"a":[1,2.5],"b":null}`))
	f.Add([]byte(`{"properties":{"a":null},"items":{}}`), []byte(`{"a":[[[]]]}`))
	f.Add([]byte(`{"type":["a","b"],"enum":[1]}`), []byte(`1`))
	f.Fuzz(func(t *testing.T, schema, config []byte) {
		said := fmt.Sprint(Check(schema, config, "config"))
		if again := fmt.Sprint(Check(schema, config, "config")); said != again {
			t.Errorf("the same config is told of as %q, then as %q", said, again)
		}
		if len(said) > maxSaid+len(schema)+len(config) { // JSON's own errors quote what they cannot read
			t.Errorf("%d bytes are said of a config of %d", len(said), len(config))
		}
	})
}
