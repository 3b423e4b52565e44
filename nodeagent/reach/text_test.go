package reach

import (
	"fmt"
	"strings"
	"testing"
)

// Of a service with very many endpoints one sees first what does not answer.
func TestAServiceOfManyEndpointsIsTold(t *testing.T) {
	t.Parallel()
	r := &Service{Namespace: "default", Name: "web", Type: "ClusterIP", Node: "n1"}
	const silent = 30
	for i := range 150 {
		e := Endpoint{Address: fmt.Sprintf("10.0.0.%d:80", i), Pod: fmt.Sprintf("web-%d", i), Node: "n1", Answers: i < 150-silent}
		if !e.Answers {
			e.Why = "it is not ready"
		}
		r.Endpoints = append(r.Endpoints, e)
		r.Missing = append(r.Missing, Missing{Pod: fmt.Sprintf("lost-%d", i), Why: "it has no address"})
	}
	for _, tt := range []struct {
		limit, lines int
		want, not    string
	}{
		{20, 1 + 22 + 22, "Endpoints\n  10.0.0.120:80 pod web-120 on n1: does not: it is not ready\n", "on n1: answers"},
		{20, 1 + 22 + 22, "  and 130 more, of which 120 answer\n", "web-140 "},
		{20, 1 + 22 + 22, "  and 130 more\n", "lost-20"},
		{50, 1 + 52 + 52, "  and 100 more, of which 100 answer\n", "web-20 "},
		{0, 1 + 151 + 151, "  lost-149: it has no address\n", " more"},
	} {
		var out strings.Builder
		if err := r.Write(&out, tt.limit); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Count(got, "\n") != tt.lines || !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
			t.Errorf("with a limit of %d it is told in %d lines, want %d with %q and without %q:\n%s", tt.limit, strings.Count(got, "\n"), tt.lines, tt.want, tt.not, got)
		}
	}
}
