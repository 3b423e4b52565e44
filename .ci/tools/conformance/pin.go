//go:build tools

// Package conformance pins what `./task conformance` builds of Kubernetes: its
// end-to-end suite and the image that most of it runs.
package conformance

import (
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
)
