package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// get finds an object of the core group.
func get[T store.Object](ctx context.Context, objects Objects, resource, namespace, name string) (T, error) {
	var none T
	obj, err := objects.Get(ctx, store.Key{Resource: resource, Namespace: namespace, Name: name})
	if errors.Is(err, store.ErrNotFound) {
		return none, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
	}
	if err != nil {
		return none, err
	}
	typed, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("%s %s is stored as %T", resource, name, obj)
	}
	return typed, nil
}

// agent is the URL of the node's agent, by the node's name: the name is what
// its certificate is checked for, and dialNode finds the address.
func (s *Streams) agent(ctx context.Context, name string) (*url.URL, error) {
	node, err := get[*corev1.Node](ctx, s.objects, "nodes", "", name)
	if err != nil {
		return nil, err
	}
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port == 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("node %s has no node agent to ask: it is simulated, or its agent has not reported its port yet", name))
	}
	if _, err := addressOf(node); err != nil {
		return nil, err
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(name, strconv.Itoa(int(port)))}, nil
}

// maxOfAnswer bounds what Fetch reads of an agent's answer.
const maxOfAnswer = 32 << 20

// Fetch gets a path of a node's agent, for the host itself.
func (s *Streams) Fetch(ctx context.Context, node, path string) ([]byte, error) {
	where, err := s.agent(ctx, node)
	if err != nil {
		return nil, err
	}
	where.Path = path
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.agents.RoundTrip(ask)
	if err != nil {
		return nil, unreachable(node, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, agentRefusal(node, answer)
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxOfAnswer))
}

func addressOf(node *corev1.Node) (string, error) {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName} {
		for _, address := range node.Status.Addresses {
			if address.Type == kind && address.Address != "" {
				return address.Address, nil
			}
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("node %s has not reported an address yet", node.Name))
}

// dialNode connects to NODE:PORT at the address that the node reports.
func (s *Streams) dialNode(ctx context.Context, network, hostport string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	node, err := get[*corev1.Node](ctx, s.objects, "nodes", "", name)
	if err != nil {
		return nil, err
	}
	address, err := addressOf(node)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return dialer.DialContext(ctx, network, net.JoinHostPort(address, port))
}
