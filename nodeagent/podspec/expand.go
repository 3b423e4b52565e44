package podspec

import "k8s.io/kubernetes/third_party/forked/golang/expansion"

// Expand replaces $(NAME) by the value that lookup gives; $$ is a dollar sign,
// and a reference that lookup does not know stays as it is.
func Expand(s string, lookup func(name string) (string, bool)) string {
	return expansion.Expand(s, func(name string) string {
		if v, ok := lookup(name); ok {
			return v
		}
		return "$(" + name + ")"
	})
}
