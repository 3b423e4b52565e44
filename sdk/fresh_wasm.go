//go:build wasip1

package sdk

func fresh[T any](impl T) T { return impl }
