// Package nft keeps in the kernel what forward says, by nftables over netlink: no
// program is run. It knows elements, and no Services.
//
// There is one table a family, named after the pods' bridge, and what others
// have in the kernel is not touched. Its rules do not depend on how many
// services there are: a new connection is looked up by address, protocol and
// port in one map, which says by how many backends to choose, and in a second
// one, which says the backend's address.
//
//	prerouting, output ─► services ─► @guarded  who may not: drop
//	                          │
//	                          ├─ from elsewhere ─► foreign ─► @outside ─► l{K} ─► @outside-backends
//	                          │                                 (policy Local)
//	                          ├─► @services ─► n{K}, m{K} ─► @backends[address, port, random of K]
//	                          ├─► @virtual  no such port: reject
//	                          └─► to this machine ─► @nodeports ─► …
//	                          @connections, @nodeport-connections: counted, on the way
//	postrouting ─► marked, or sent to itself: masquerade
//
// Services with session affinity have chains of their own, named after what is
// in them: a chain that exists is right.
package nft
