package guest

// reuse is a slice of n, of s's memory if that is enough. What it holds is
// undefined.
func reuse[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n, n+n/4)
}
