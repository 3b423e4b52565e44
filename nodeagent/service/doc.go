// Package service works out what a node does with connections to Services:
// objects in, forward.Change out. It is pure: who follows the API and who talks
// to the kernel are above it.
//
// The rules are those of kube-proxy: which endpoints are used (Categorize), who
// is rejected and who is dropped (entries), whose address is kept. Of services
// that claim one address and port the oldest has it; the others get it when it
// lets go.
package service

// AnnouncedBy is the annotation of a Service whose load balancer's addresses one node
// announces on its links: it has the node's name. The host writes it.
const AnnouncedBy = "network.berth.dev/announced-by"

// IngressPorts is what a Node's condition IngressServing says: the ports for HTTP and
// TLS, 0 where there is none.
const IngressPorts = "requests for Ingresses are answered on this node's ports %d and %d"
