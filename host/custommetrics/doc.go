// Package custommetrics asks adapters for the metrics of the types Pods, Object and
// External that a HorizontalPodAutoscaler names, by the APIs custom.metrics.k8s.io
// and external.metrics.k8s.io, as kube-controller-manager does: by its client.
//
// Nobody waits for an adapter but the autoscalers that ask it: each request has its
// time and its bytes, and each of the two APIs its number of requests side by side.
package custommetrics
