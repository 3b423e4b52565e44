// Package berth carries the sources that a policy is built from, so that
// `berth policy new` needs no network and no checkout.
package berth

import "embed"

// Guest holds the SDK and the contract, tests included, by their paths here.
//
//go:embed go.mod LICENSE sdk/*.go sdk/*/*.go sdk/internal/*/*.go abi/*.go abi/fb/*.go
var Guest embed.FS
