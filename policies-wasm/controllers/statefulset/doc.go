// Package statefulset is the controller StatefulSet: it keeps pods that have a
// name, a host name and volumes of their own.
//
// Pods are NAME-0, NAME-1 and so on, from spec.ordinals.start. With policy
// OrderedReady one is made when those before it are available, and one taken
// away when those after it are gone; with Parallel none waits for another. A pod
// that ended is replaced. Claims are made of spec.volumeClaimTemplates before
// their pod, as TEMPLATE-NAME-ORDINAL, and belong to nobody, to the set or to
// the pod, as spec.persistentVolumeClaimRetentionPolicy says.
//
// Each template that the set has is kept as a ControllerRevision. A pod of
// another one is replaced, from the highest ordinal down to the partition, each
// when those above it are available; as many at a time as maxUnavailable says
// where that field is served, which Kubernetes 1.36 does not by default. With
// OnDelete nobody but the user replaces pods.
//
// A pod of an older revision that never was ready keeps OrderedReady from going
// back to a template that works (kubernetes/kubernetes#67250). With annotation
// berth.dev/replace-broken: "true" it is replaced.
//
// Source: kube-controller-manager 1.36, pkg/controller/statefulset.
package statefulset
