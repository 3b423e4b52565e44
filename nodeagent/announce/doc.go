// Package announce tells this machine's links that addresses of load balancers are
// here: it answers ARP and neighbour discovery for them, and says so by itself when
// it begins. The machine does not have the addresses; its service rules take the
// packets. When the agent ends, or cannot renew its Lease, nobody answers any more,
// and the host has another node do it.
package announce
