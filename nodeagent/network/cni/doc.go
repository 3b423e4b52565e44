// Package cni connects pods by the CNI plugins bridge, host-local and
// loopback: one bridge a node, an address each from the node's pod range.
//
//	pod ── veth ── bridge ──┬── pods of this node
//	                        ├── routes to the ranges of other nodes (SetPeers):
//	                        │   by their address, or through vxlan berth.1
//	                        └── nftables: masquerade for what leaves the cluster's
//	                            range, host ports, services (nodeagent/nft)
//
// Pods see each other's addresses everywhere in the cluster: the bridge plugin
// masquerades nothing, and the kernel's rules exempt the cluster's range. Between
// pods of one node they are routed, too, by the bridge's address.
//
// With Config.ConfDir a CNI of the user's own connects them: then there is no bridge of
// ours, and no routes; the kernel's rules are the same.
//
// # Notes
//
// Namespaces, leases and results lie below Config.State, which is best on a
// tmpfs: after a reboot nothing of it holds. Several agents on one machine need
// bridges, state folders and pod ranges of their own; Open says so if not.
package cni
