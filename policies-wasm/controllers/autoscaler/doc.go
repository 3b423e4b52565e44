// Package autoscaler is the controller HorizontalPodAutoscaler: it sets how many
// replicas a Deployment, ReplicaSet, StatefulSet or ReplicationController has by
// what its pods use.
//
//	each metric ─► replicas ─┐
//	each metric ─► replicas ─┴► the most ─► stabilized ─► within rates and bounds ─► scale
//
// It looks every 15 seconds, and at once where the spec has changed. What it
// recommended before, and when it scaled, is in the host's memory; after a restart
// it begins anew, as Kubernetes' does.
//
// Source: kube-controller-manager 1.36, pkg/controller/podautoscaler, with its
// default flags. What adapters say of metrics of the types Pods, Object and External
// is the host's to ask. Two autoscalers of the same pods are not told of each
// other, and scale targets are of the four kinds above.
package autoscaler
