//go:build !wasip1

package sdk

// note does nothing where there is no host.
func note(int32) {}
