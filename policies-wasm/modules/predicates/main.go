// The module predicates bundles the built-in predicates.
package main

import (
	_ "github.com/berth-dev/berth/policies-wasm/predicates/checknodecondition"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/checknodepressure"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/checknodeunschedulable"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/checkvolumebinding"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/hostname"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/matchinterpodaffinity"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/matchnodeselector"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/maxvolumecount"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/nodiskconflict"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/novolumezoneconflict"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/podfitshostports"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/podfitsresources"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/podtoleratesnodetaints"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/podtopologyspread"
	"github.com/berth-dev/berth/sdk"
)

func init() { sdk.Module("predicates", "1.0.0") }

func main() {}
