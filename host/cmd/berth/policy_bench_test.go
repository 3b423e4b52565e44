package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/policytest"
	sdktest "github.com/berth-dev/berth/sdk/policytest"
)

// Who cannot bear many nodes learns how many, and what it costs with fewer.
func TestABenchSaysOfHowManyNodesAPolicyFails(t *testing.T) {
	t.Parallel()
	e, err := engine.New(t.Context(), engine.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	b := &bench{ctx: t.Context(), engine: e, sizes: []int{10, 20}, t: &table{head: []string{"POLICY", "NODES"}}}
	r := &sdktest.Recorded{Table: sdktest.Table{Nodes: []sdktest.Node{{Name: "n"}}, Cases: []sdktest.Case{{Name: "any"}}}}
	// It lacks berth_idle, which a measured one is asked for.
	_, err = b.own(policytest.Guest{Name: "Weary", Mask: 1, Refuse: -1}.Bytes(), r)
	if err == nil || !strings.Contains(err.Error(), "Weary, of 10 nodes: ") {
		t.Errorf("it fails by %v", err)
	}
}
