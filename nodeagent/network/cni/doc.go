// Package cni connects pods by the CNI plugins bridge, host-local, portmap and
// loopback: one bridge a node, an address each from the node's pod range.
//
//	pod ── veth ── bridge ──┬── pods of this node
//	                        ├── routes to the ranges of other nodes (SetPeers):
//	                        │   by their address, or through vxlan berth.1
//	                        └── masquerade, for what leaves the cluster's range
//
// Pods see each other's addresses everywhere in the cluster: the bridge plugin
// masquerades nothing, and the package's own rule exempts the cluster's range.
//
// # Notes
//
// Namespaces, leases and results lie below Config.State, which is best on a
// tmpfs: after a reboot nothing of it holds. Several agents on one machine need
// bridges, state folders and pod ranges of their own; Open says so if not.
package cni
