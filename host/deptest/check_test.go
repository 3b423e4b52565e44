package deptest

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const core, other = module + "/core", module + "/other"
	rules := []rule{
		{folder: "core", but: []string{"core/free"}, may: []string{"kit"}, only: []string{"x.org/good"}, because: "it is small"},
		{folder: "other", never: []string{"core", "x.org/bad"}, because: "it is far away"},
	}
	owned := []ownership{{"x.org/heavy", []string{"core/heavy"}, "it is heavy"}}
	tops := []string{"core", "other", "kit"}
	tests := []struct {
		name string
		pkg  pkg
		want string // a part of the problem; empty: none
	}{
		{"the standard library is free", pkg{ImportPath: core, Imports: []string{"fmt"}}, ""},
		{"a room may import itself", pkg{ImportPath: core + "/a", Imports: []string{core + "/b"}}, ""},
		{"a room may import what is listed, and below", pkg{ImportPath: core, Imports: []string{module + "/kit/sub", "x.org/good/sub"}}, ""},
		{"a room that is not listed", pkg{ImportPath: core, Imports: []string{other}}, "core imports other: core may import [kit] of this module, because it is small"},
		{"a library that is not listed", pkg{ImportPath: core, Imports: []string{"x.org/better"}}, "core imports x.org/better"},
		{"a name that only begins alike", pkg{ImportPath: core, Imports: []string{"x.org/goodness"}}, "core imports x.org/goodness"},
		{"an exempt folder", pkg{ImportPath: core + "/free", Imports: []string{other, "x.org/better"}}, ""},
		{"something reached through others", pkg{ImportPath: other, Imports: []string{"x.org/fine"}, Deps: []string{"x.org/fine", "x.org/bad/sub"}}, "other reaches x.org/bad/sub"},
		{"a room reached through others", pkg{ImportPath: other, Deps: []string{core}}, "other reaches core"},
		{"an owned library in its room", pkg{ImportPath: core + "/heavy", Imports: []string{"x.org/good"}}, ""},
		{"an owned library elsewhere", pkg{ImportPath: other, Imports: []string{"x.org/heavy/sub"}}, "belongs to [core/heavy] alone, because it is heavy"},
		{"a folder that no one planned", pkg{ImportPath: module + "/util"}, "util lies outside the top-level folders"},
		{"a package of others is not judged", pkg{ImportPath: "x.org/fine", Imports: []string{"x.org/heavy"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(check([]pkg{{ImportPath: "fmt", Standard: true}, tt.pkg}, rules, owned, tops), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("check = %q, want %q", got, tt.want)
			}
		})
	}
}
