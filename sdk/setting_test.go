package sdk

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/sdk/guest"
)

type labelled struct{ label string }

func (l *labelled) Configure(c Config) error {
	l.label = c.Object("by").String("label", "zone")
	return c.OnlyKeys("by")
}

func (l *labelled) Score(*Pod, *Node) int64 { return 0 }

// What is no text is not passed over as if nothing were said.
func TestASettingOfAnotherTypeIsRefused(t *testing.T) {
	Priority("Labelled", &labelled{})
	for settings, want := range map[string]string{
		`{"by":{"label":"rack"}}`: "", `{"by":{}}`: "", `{"by":{"label":null}}`: "",
		`{"by":{"label":5}}`: "Labelled: label must be a text", `{"by":{"label":["rack"]}}`: "Labelled: label must be a text",
	} {
		_, err := guest.Open([]byte(`{"policy":"Labelled","config":` + settings + `}`))
		if said := fmt.Sprint(err); (err == nil) != (want == "") || err != nil && said != want {
			t.Errorf("%s is refused by %q, want %q", settings, said, want)
		}
	}
}
