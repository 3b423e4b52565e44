package abi_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/abi"
)

func TestReadPodAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		packed uint64
		want   abi.PodAnswer
		err    string
	}{
		{"rows", 0, abi.PodAnswer{}, ""},
		{"skip, whatever stands above it", 1 | 7<<8, abi.PodAnswer{Ask: abi.AskSkip}, ""},
		{"refuse with a reason", 2 | 3<<8, abi.PodAnswer{Ask: abi.AskRefuse, Reason: 3}, ""},
		{"refuse without a reason", 2, abi.PodAnswer{}, "reason 0"},
		{"refuse with a reason beyond the table", 2 | 256<<8, abi.PodAnswer{}, "reason 256"},
		{"failed", 255, abi.PodAnswer{}, "reported a failure"},
		{"something else", 9, abi.PodAnswer{}, "neither"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := abi.ReadPodAnswer(tt.packed)
			check(t, err, tt.err)
			if got != tt.want {
				t.Errorf("ReadPodAnswer(%#x) = %v, want %v", tt.packed, got, tt.want)
			}
		})
	}
}

// check compares an error with a part of its text; empty stands for none.
func check(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil {
		t.Errorf("error %v, want none", err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

func TestReadScoresClamps(t *testing.T) {
	t.Parallel()
	raw := []byte{
		255, 255, 255, 255, 255, 255, 255, 127, // the largest
		0, 0, 0, 0, 0, 0, 0, 128, // the smallest
		7, 0, 0, 0, 0, 0, 0, 0,
	}
	got := make([]int64, 3)
	if err := abi.ReadScores(raw, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{abi.MaxScore, -abi.MaxScore, 7}, got); diff != "" {
		t.Errorf("ReadScores (-want +got):\n%s", diff)
	}
	check(t, abi.ReadScores(raw, make([]int64, 2)), "24 bytes of scores for 2 rows")
}

func TestReadManifest(t *testing.T) {
	t.Parallel()
	policy := func(more string) string {
		return `{"abi":1,"policies":[{"name":"A","kind":"predicate"` + more + `}]}`
	}
	tests := []struct{ name, text, err string }{
		{"the least", policy(""), ""},
		{"fields of a later version", policy(`,"later":{}`), ""},
		{"no JSON", `{`, "not the JSON"},
		{"two values", policy("") + policy(""), "more than one"},
		{"another ABI", `{"abi":2,"policies":[{"name":"A","kind":"predicate"}]}`, "is for ABI 2"},
		{"no policies", `{"abi":1}`, "registers no policy"},
		{"a policy twice", `{"abi":1,"policies":[{"name":"A","kind":"gate","conditionTypes":["x"]},{"name":"A","kind":"gate","conditionTypes":["x"]}]}`, "twice"},
		{"a group that is not known", policy(`,"reads":["node.moods"]`), "unknown group"},
		{"skips by what it does not read", policy(`,"reads":["pod.labels"],"skipDependsOn":["pod.affinity"]`), "does not read \"pod.affinity\""},
		{"skips by terms that it is not told", policy(`,"reads":["pod.labels"],"skipDependsOn":["pods.terms"]`), "does not read \"pods.terms\""},
		{"skips by part of what it reads", policy(`,"reads":["pod.labels","pods"],"skipDependsOn":["pods.terms","pod.labels"]`), ""},
		{"reads what only skips name", policy(`,"reads":["pods.terms"]`), "unknown group"},
		{"a scope that is not known", policy(`,"scope":"all"`), "unknown scope"},
		{"a normalisation that is not known", policy(`,"normalize":"mean"`), "unknown normalisation"},
		{"a kind that is not known", `{"abi":1,"policies":[{"name":"A","kind":"oracle"}]}`, "unknown kind"},
		{"a name that is no name", `{"abi":1,"policies":[{"name":"A B","kind":"predicate"}]}`, "the name must be"},
		{"a gate for nothing", `{"abi":1,"policies":[{"name":"A","kind":"gate"}]}`, "conditionTypes"},
		{"a controller of nothing", `{"abi":1,"policies":[{"name":"A","kind":"controller"}]}`, "a parent"},
		{"too long", policy(`,"description":"` + strings.Repeat("x", abi.MaxManifest) + `"`), "at most"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := abi.ReadManifest([]byte(tt.text))
			check(t, err, tt.err)
		})
	}
}

func TestWhoReadsClusterObjectsIsOfScopeSet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reads []string
		scope string
		want  abi.Scope
	}{
		{[]string{"node.labels"}, "row", abi.ScopeRow},
		{[]string{"node.labels"}, "set", abi.ScopeSet},
		{[]string{"pods"}, "row", abi.ScopeSet},
		{[]string{"time"}, "", abi.ScopeSet},
	} {
		p := abi.Policy{Reads: tt.reads, Scope: tt.scope}
		if got := p.ScopeOf(); got != tt.want {
			t.Errorf("ScopeOf(%v, %q) = %v, want %v", tt.reads, tt.scope, got, tt.want)
		}
	}
}

func FuzzReadAnswers(f *testing.F) {
	f.Add([]byte(`{"abi":1,"policies":[{"name":"A","kind":"predicate","reads":["pods"]}]}`), uint64(2))
	f.Add([]byte(`[{"text":"Insufficient cpu","final":true},{"text":""}]`), uint64(0x302))
	f.Add([]byte(`[{"status":"True","requeueAfterNanos":5}]`), uint64(0))
	f.Add([]byte(`{"groups":["node.usage"],"labels":{"a":null,"b":["c"]},"name":[]}`), uint64(1))
	f.Add([]byte(`{"create":[{"count":2,"object":{}}],"delete":["u"],"events":[{"type":"x"}]}`), uint64(255))
	f.Fuzz(func(t *testing.T, b []byte, packed uint64) {
		if a, err := abi.ReadPodAnswer(packed); err == nil && a.Reason > abi.MaxReasons {
			t.Errorf("reason %d", a.Reason)
		}
		if m, err := abi.ReadManifest(b); err == nil && (len(m.Policies) == 0 || m.Find(m.Policies[0].Name) == nil) {
			t.Error("a manifest without policies passed")
		}
		if list, err := abi.ReadReasons(b); err == nil {
			for _, r := range list {
				if r.Text == "" || len(r.Text) > abi.MaxReason || !utf8.ValidString(r.Text) {
					t.Errorf("reason %q", r.Text)
				}
			}
		}
		if list, err := abi.ReadReadiness(b, 1); err == nil && (len(list) != 1 || list[0].RequeueAfterNanos < 0) {
			t.Errorf("readiness %v", list)
		}
		if o, err := abi.ReadReconcileResult(b); err == nil {
			for _, c := range o.Create {
				if c.Count < 0 || c.Count > abi.MaxCreations || !json.Valid(c.Object) {
					t.Errorf("creation %v", c)
				}
			}
		}
		const reads = abi.NodeGroups | abi.NodeName
		if d, err := abi.ReadDepends(b, reads); err == nil && (!d.Covers(d) || !(&abi.Depends{Groups: reads}).Covers(d) && d != nil) {
			t.Errorf("depends on %+v", d)
		}
		scores := make([]int64, len(b)/8)
		if err := abi.ReadScores(b[:8*len(scores)], scores); err != nil {
			t.Error(err)
		}
		for _, s := range scores {
			if s > abi.MaxScore || s < -abi.MaxScore {
				t.Errorf("score %d", s)
			}
		}
	})
}

func TestTextIsOneValidLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"fine":     "fine",
		"two\nof":  "two of",
		"a\xffb":   "a\uFFFDb",
		"abcdefg":  "abcdef",
		"abcd\xe2": "abcd",
	} {
		if got := abi.Text(in, 6); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}
