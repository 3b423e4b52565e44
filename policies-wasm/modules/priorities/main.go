// The module priorities bundles the built-in priorities.
package main

import (
	_ "github.com/berth-dev/berth/policies-wasm/priorities/balancedallocation"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/equal"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/imagelocality"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/interpodaffinity"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/leastrequested"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/mostrequested"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/nodeaffinity"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/nodepreferavoidpods"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/podtopologyspread"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/requestedtocapacityratio"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/selectorspread"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/tainttoleration"
	"github.com/berth-dev/berth/sdk"
)

func init() { sdk.Module("priorities", "1.0.0") }

func main() {}
