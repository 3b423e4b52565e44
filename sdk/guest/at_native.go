//go:build !wasip1

package guest

// note does nothing where there is no host.
func note(int32) {}
