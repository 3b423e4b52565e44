// The module priorities bundles the built-in priorities.
package main

import (
	_ "github.com/berth-dev/berth/policies-wasm/priorities/leastrequested"
	"github.com/berth-dev/berth/sdk"
)

func init() { sdk.Module("priorities", "1.0.0") }

func main() {}
