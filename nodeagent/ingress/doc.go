// Package ingress answers for the cluster's Ingresses on the ports of this node:
// a table says by host and path whose a request is, and a server carries it there.
//
// The table is pure, and made anew when an Ingress changes. Who has the backends is
// asked at each request, so that no connection is made to a pod that is not ready.
// What the server refuses to do: send anything to a name or an address that is no
// endpoint of a Service, and answer TLS for a host that no Ingress has a
// certificate for.
package ingress
