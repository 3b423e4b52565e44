package network

import (
	"context"
	"net/netip"

	"github.com/berth-dev/berth/nodeagent/userns"
)

// Network connects pods.
type Network interface {
	// Add makes a namespace for the pod and connects it. Adding an id that is
	// connected already gives the same attachment again.
	Add(ctx context.Context, pod Pod) (Attachment, error)
	// Del disconnects a pod and removes its namespace.
	Del(ctx context.Context, id string) error
	// Sweep does Del for everything whose id is not in keep: what a crash left. keep is
	// asked after it was seen what is there, so that who comes meanwhile stays.
	Sweep(ctx context.Context, keep func() []string) error
	// Listeners are the TCP ports at which an attached pod takes connections from
	// others.
	Listeners(id string) ([]uint16, error)
	// Ready fails with the reason while pods can not be connected.
	Ready(ctx context.Context) error
}

// Pod is what is connected. ID names the attachment (one per sandbox: the pod's
// UID and the sandbox's attempt) and is safe as a file name.
type Pod struct {
	ID        string
	Namespace string
	Name      string
	UID       string
	Ports     []PortMapping
	// Bandwidth in bits per second, 0 is unlimited. A network that cannot limit it
	// does not.
	Ingress, Egress int64
	// IDs, unless they are the machine's own, are those of the user namespace
	// that is to own the network namespace.
	IDs userns.Range
	// Sysctls under net. are set by the runtime, not here.
}

// PortMapping opens a port of the machine to the pod. Protocol is "tcp",
// "udp" or "sctp".
type PortMapping struct {
	HostPort      int32
	ContainerPort int32
	Protocol      string
	HostIP        string
}

// Attachment is a connected namespace. IPs has the primary first, at most one
// of each family.
type Attachment struct {
	NetNS string
	IPs   []netip.Addr
}

// Nothing has a Sweep keep nothing.
func Nothing() []string { return nil }
