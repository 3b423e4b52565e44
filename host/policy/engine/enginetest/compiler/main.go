// Command compiler is a compile child and nothing else, for tests whose own
// binary the race detector slows.
package main

import (
	"fmt"
	"os"

	_ "github.com/berth-dev/berth/host/policy/engine" // which makes a child of it
)

func main() {
	fmt.Fprintln(os.Stderr, "compiler: a host starts this program, to compile a policy")
	os.Exit(2)
}
