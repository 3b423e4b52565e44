//go:build !amd64 && !arm64

package confine

// The compiler does not run on other processors.
const (
	callArch    = 0
	callSeccomp = 0
	callPrlimit = 0
)

var ownCalls []uint32
