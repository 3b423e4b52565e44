// The module predicates bundles the built-in predicates.
package main

import (
	_ "github.com/berth-dev/berth/policies-wasm/predicates/podfitsresources"
	"github.com/berth-dev/berth/sdk"
)

func init() { sdk.Module("predicates", "1.0.0") }

func main() {}
