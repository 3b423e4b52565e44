// Package ephemeral makes the claims of pods' ephemeral volumes: for a volume
// with a template one that is named after the pod and the volume, belongs to the
// pod, and goes with it. A claim of that name which is not the pod's is left
// alone, and the pod waits.
//
// Source: k8s.io/kubernetes 1.36, pkg/controller/volume/ephemeral.
package ephemeral
