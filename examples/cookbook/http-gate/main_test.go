package main

import (
	"testing"

	"github.com/berth-dev/berth/sdk"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		seen []sdk.Observation
		want sdk.ConditionStatus
	}{
		{"nothing is observed", nil, sdk.Unknown},
		{"all answer", []sdk.Observation{{Name: "health", OK: true, Code: 200}, {Name: "warm", OK: true, Code: 204}}, sdk.True},
		{"one does not", []sdk.Observation{{Name: "health", OK: true}, {Name: "warm", Detail: "503"}}, sdk.False},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := httpGate{}.Check(0, &sdk.GatePod{Observations: tt.seen})
			if got.Status != tt.want {
				t.Errorf("Check = %+v, want status %v", got, tt.want)
			}
		})
	}
}
