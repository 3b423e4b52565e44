// The module controllers bundles the built-in controllers.
package main

import (
	_ "github.com/berth-dev/berth/policies-wasm/controllers/disruption"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/endpoints"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/replicaset"
	"github.com/berth-dev/berth/sdk"
)

func init() { sdk.Module("controllers", "1.0.0") }

func main() {}
