//go:build tools

// Package kubeproxy pins the program beside which services are measured.
package kubeproxy

import _ "k8s.io/kubernetes/cmd/kube-proxy/app"
