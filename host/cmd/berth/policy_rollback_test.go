package main

import (
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func TestWhatARollBackGoesBackTo(t *testing.T) {
	t.Parallel()
	revision := func(module, left string) v1alpha1.PolicyRevision {
		return v1alpha1.PolicyRevision{Module: module, Left: left}
	}
	two := revision("sha256-2", "")
	history := []v1alpha1.PolicyRevision{revision("sha256-3", v1alpha1.LeftRolledBack), revision("sha256-1", v1alpha1.LeftReplaced)}
	for name, tt := range map[string]struct {
		phase, to, want string
		canary          *v1alpha1.CanaryStatus
	}{
		"the newest that was replaced":               {phase: v1alpha1.PhaseLive, want: "sha256-1"},
		"the one that is named":                      {phase: v1alpha1.PhaseLive, to: "3", want: "sha256-3"},
		"the live one, where the newest was refused": {phase: v1alpha1.PhaseRefused, want: "sha256-2"},
		"none, where a canary is on trial":           {phase: v1alpha1.PhaseLive, canary: &v1alpha1.CanaryStatus{Phase: v1alpha1.PhaseRunning}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &v1alpha1.Policy{Status: v1alpha1.PolicyStatus{Phase: tt.phase, Current: &two, History: history, Canary: tt.canary}}
			spec, err := goingBack(p, tt.to)
			module, _ := spec["module"].(string)
			if err != nil || module != tt.want {
				t.Errorf("goingBack = %v, %v, want %s", spec, err, tt.want)
			}
		})
	}
}

// A controller acts again as it did: as the account of what came after it, it may
// have rights that it was never given, or lack those that it needs.
func TestARollBackBringsTheAccountBack(t *testing.T) {
	t.Parallel()
	account := func(name string) *v1alpha1.ServiceAccountReference {
		return &v1alpha1.ServiceAccountReference{Namespace: "default", Name: name}
	}
	for name, tt := range map[string]struct {
		kind          string
		of            *v1alpha1.ServiceAccountReference
		want, changed bool
	}{
		"of a controller":                              {abi.KindController, account("narrow"), true, true},
		"not of one of which nobody wrote it down":     {abi.KindController, nil, false, false},
		"none of a predicate, whose successor had one": {abi.KindPredicate, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &v1alpha1.Policy{Status: v1alpha1.PolicyStatus{
				Kind: tt.kind, Phase: v1alpha1.PhaseLive, Current: &v1alpha1.PolicyRevision{Module: "sha256-2", ServiceAccount: account("wide")},
				History: []v1alpha1.PolicyRevision{{Module: "sha256-1", ServiceAccount: tt.of, Left: v1alpha1.LeftReplaced}},
			}}
			for _, to := range []string{"", "1"} {
				spec, err := goingBack(p, to)
				if err != nil {
					t.Fatal(err)
				}
				got, changed := spec["serviceAccount"].(*v1alpha1.ServiceAccountReference)
				if changed != tt.changed || (got != nil) != tt.want || got != nil && *got != *tt.of {
					t.Errorf("goingBack(%q) changes the account to %v (%t), want %v (%t)", to, got, changed, tt.of, tt.changed)
				}
			}
		})
	}
}
