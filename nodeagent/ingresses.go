package nodeagent

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/ingress"
	"github.com/berth-dev/berth/nodeagent/service"
)

// Ingress is where the machine answers for the cluster's Ingresses: nil is nowhere.
// The agent closes the listeners when it ends.
type Ingress struct {
	HTTP, HTTPS net.Listener
}

// Close gives the ports back.
func (i Ingress) Close() {
	for _, l := range []net.Listener{i.HTTP, i.HTTPS} {
		if l != nil {
			l.Close()
		}
	}
}

// ingressServing is the condition of a Node whose machine answers for Ingresses.
const ingressServing v1.NodeConditionType = "IngressServing"

// answerIngresses makes the server, if the machine is to have one.
func (a *Agent) answerIngresses() {
	at := a.cfg.Ingress
	if at.HTTP == nil && at.HTTPS == nil {
		return
	}
	a.ingress = ingress.New(ingress.Config{HTTP: at.HTTP, HTTPS: at.HTTPS, Backends: a.backends, Secret: a.objects.Secret, Log: a.log})
}

// followIngresses is the loop of the cluster's Ingresses.
func (a *Agent) followIngresses(ctx context.Context) error {
	return ingress.Follow(ctx, a.client, a.ingress, a.log)
}

// backends are those of a target that are ready, by the catalog.
func (a *Agent) backends(t ingress.Target) []netip.AddrPort {
	svc, err := a.catalog.Services().Lister().Services(t.Namespace).Get(t.Service)
	if err != nil {
		return nil // it is gone, or not there yet
	}
	port := ingress.PortOf(svc, t.Port)
	if port == nil {
		return nil
	}
	return service.Backends(svc, port, a.catalog.SlicesOf(t.Namespace, t.Service), a.place())
}

// serving is the condition that tells the host that Ingresses are answered here.
func (a *Agent) serving() (all []v1.NodeCondition) {
	if a.ingress == nil {
		return nil
	}
	says := fmt.Sprintf(service.IngressPorts, portOf(a.cfg.Ingress.HTTP), portOf(a.cfg.Ingress.HTTPS))
	return []v1.NodeCondition{{Type: ingressServing, Status: v1.ConditionTrue, Reason: "Listening", Message: says}}
}

func portOf(l net.Listener) int {
	if l == nil {
		return 0
	}
	return l.Addr().(*net.TCPAddr).Port
}
