// Package checkvolumebinding is the predicate CheckVolumeBinding, also known as
// NoVolumeNodeConflict. Of the pod's claims,
//
//   - those that are bound must be bound to volumes that exist and whose node
//     affinity the node matches;
//   - those that wait for their first consumer get, the smallest first, the
//     smallest volume that fits each and that the node can use; a volume that is
//     set aside for the claim goes before others;
//   - what is left, or has been given to a node already, must be of a class that
//     makes volumes: its allowed topologies take the node, and if the driver
//     tells what is left, enough is left where the node can use it.
//
// A claim that does not exist, is lost, or waits for nothing and is not bound
// refuses the pod. Each verdict is final: removing pods frees no volume.
//
// Which volume a claim gets is the host's choice once the node is chosen.
//
// Source: kube-scheduler 1.36, plugin VolumeBinding (PreFilter, Filter).
package checkvolumebinding
