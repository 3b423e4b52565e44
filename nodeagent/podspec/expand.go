package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

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

// ExpandStatic replaces $(NAME) in a command by what the spec itself gives variables.
func ExpandStatic(command []string, env []v1.EnvVar) []string {
	out := make([]string, len(command))
	for i, arg := range command {
		out[i] = Expand(arg, func(name string) (string, bool) {
			at := slices.IndexFunc(env, func(v v1.EnvVar) bool { return v.Name == name })
			if at < 0 {
				return "", false
			}
			return env[at].Value, true
		})
	}
	return out
}
