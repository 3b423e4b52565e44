// Package balancer works out which addresses Services of type LoadBalancer get, and
// which node announces one of a pool. It is pure: who follows the store and writes
// what it says is host/network.
//
// With Nodes, a Service is answered at the addresses of nodes, on the Service's own
// ports: of two Services with one port the older one has it. With Pools, it has an
// address of its own of each family, and keeps it. The node that announces it is
// chosen by rendezvous hashing: when nodes come and go, few addresses move.
package balancer
