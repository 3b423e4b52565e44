// The module controllers bundles the built-in controllers.
package main

import (
	_ "github.com/berth-dev/berth/policies-wasm/controllers/autoscaler"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/cronjob"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/daemonset"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/deployment"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/disruption"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/endpoints"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/job"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/replicaset"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/statefulset"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/volumes"
	"github.com/berth-dev/berth/sdk"
)

func init() { sdk.Module("controllers", "1.0.0") }

func main() {}
