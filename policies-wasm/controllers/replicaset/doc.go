// Package replicaset is the controller ReplicaSet: it keeps as many pods of a
// template as spec.replicas says.
//
// Pods that the selector matches and nobody controls are adopted; those that it
// no longer matches are released. Too few: pods are created, 500 a round at
// most. Too many: they are deleted in Kubernetes' order, the ones that are
// missed least first: unassigned, pending, not ready, of lower deletion cost,
// doubled up on a node, ready for less time (by powers of two), restarted more
// often, younger. Status counts replicas, those that bear the template's labels,
// ready and available ones.
//
// Source: kube-controller-manager 1.36, pkg/controller/replicaset. Doubled up
// are pods of the same ReplicaSet; Kubernetes counts those of its Deployment's
// other ReplicaSets too.
package replicaset
