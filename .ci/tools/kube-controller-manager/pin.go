//go:build tools

// Package kcm pins the program beside which controllers are measured.
package kcm

import _ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
