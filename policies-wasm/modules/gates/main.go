// The module gates bundles the built-in readiness gate checkers.
package main

import (
	_ "github.com/berth-dev/berth/policies-wasm/gates/minreadyseconds"
	"github.com/berth-dev/berth/sdk"
)

func init() { sdk.Module("gates", "1.0.0") }

func main() {}
