package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCut(t *testing.T) {
	t.Parallel()
	rec := func(n int) Record { return Record{Key: "k", Value: make([]byte, n-1-RecordOverhead)} }
	for name, tc := range map[string]struct {
		puts    []Record
		deletes []string
		want    []string
	}{
		"nothing":                 {nil, nil, nil},
		"all fits":                {[]Record{rec(100), rec(100)}, []string{"d"}, []string{"2+1"}},
		"by bytes":                {[]Record{rec(200), rec(200), rec(100)}, nil, []string{"1+0", "2+0"}},
		"by records":              {[]Record{rec(70), rec(70), rec(70), rec(70)}, nil, []string{"3+0", "1+0"}},
		"deletions count":         {[]Record{rec(70)}, strings.Split("abcde", ""), []string{"1+2", "0+3"}},
		"one that is too large":   {[]Record{rec(70), rec(400), rec(70)}, nil, []string{"1+0", "1+0", "1+0"}},
		"exactly the limit fits":  {[]Record{rec(150), rec(150)}, nil, []string{"2+0"}},
		"one byte above does not": {[]Record{rec(150), rec(151)}, nil, []string{"1+0", "1+0"}},
	} {
		var got []string
		for _, b := range cut(Limits{Bytes: 300, Records: 3}, tc.puts, tc.deletes) {
			got = append(got, fmt.Sprintf("%d+%d", len(b.Puts), len(b.Deletes)))
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("pods", "ns", "x")
	f.Add("a\x00b", "", "")
	f.Fuzz(func(t *testing.T, resource, namespace, name string) {
		k := Key{resource, namespace, name}
		if k.check() != nil {
			return
		}
		if got, err := decodeKey(k.encode()); err != nil || got != k {
			t.Errorf("key %q came back as %q, %v", k, got, err)
		}
	})
}
