package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apimachinery/pkg/util/validation"
)

// target is the [SCHEME:]NAME[:PORT] of a proxied pod, service or node.
type target struct{ scheme, name, port string }

func targetOf(text string) (target, error) {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(text)
	if !ok || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return target{}, apierrors.NewBadRequest(fmt.Sprintf("%q is not of the form [SCHEME:]NAME[:PORT]", text))
	}
	return target{scheme, name, port}, nil
}

func (s *Streams) proxyPod(w http.ResponseWriter, r *http.Request, t Target) error {
	to, err := targetOf(t.Name)
	if err != nil {
		return err
	}
	pod, err := get[*corev1.Pod](r.Context(), s.objects, "pods", t.Namespace, to.name)
	if err != nil {
		return err
	}
	if pod.Status.PodIP == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s has no address yet", to.name))
	}
	if to.port == "" {
		to.port = firstPort(pod)
	}
	return s.forward(w, r, t, to.scheme, pod.Status.PodIP, to.port)
}

func firstPort(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			return strconv.Itoa(int(port.ContainerPort))
		}
	}
	return "80"
}

func (s *Streams) proxyService(w http.ResponseWriter, r *http.Request, t Target) error {
	to, err := targetOf(t.Name)
	if err != nil {
		return err
	}
	service, err := get[*corev1.Service](r.Context(), s.objects, "services", t.Namespace, to.name)
	if err != nil {
		return err
	}
	port, err := servicePort(service, to.port)
	if err != nil {
		return err
	}
	address, number, err := s.endpoint(r.Context(), service, port)
	if err != nil {
		return err
	}
	return s.forward(w, r, t, to.scheme, address, strconv.Itoa(int(number)))
}

// servicePort finds a port by its name or number; without either a service has
// to have one port only.
func servicePort(service *corev1.Service, wanted string) (string, error) {
	for _, port := range service.Spec.Ports {
		if wanted == port.Name || wanted == strconv.Itoa(int(port.Port)) || wanted == "" && len(service.Spec.Ports) == 1 {
			return port.Name, nil
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %q found for service %q", wanted, service.Name))
}

// endpoint picks a ready endpoint of the service's port, at random.
func (s *Streams) endpoint(ctx context.Context, service *corev1.Service, port string) (string, int32, error) {
	slices, err := s.objects.List(ctx, "endpointslices.discovery.k8s.io", service.Namespace)
	if err != nil {
		return "", 0, err
	}
	type candidate struct {
		address string
		port    int32
	}
	var found []candidate
	for _, obj := range slices {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] != service.Name {
			continue
		}
		number := slicePort(slice, port)
		for i := range slice.Endpoints {
			ready := slice.Endpoints[i].Conditions.Ready
			if number == 0 || ready != nil && !*ready || len(slice.Endpoints[i].Addresses) == 0 {
				continue
			}
			found = append(found, candidate{slice.Endpoints[i].Addresses[0], number})
		}
	}
	if len(found) == 0 {
		return "", 0, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service.Name))
	}
	one := found[rand.IntN(len(found))]
	return one.address, one.port, nil
}

func slicePort(slice *discoveryv1.EndpointSlice, name string) int32 {
	for _, port := range slice.Ports {
		if port.Port != nil && (port.Name == nil && name == "" || port.Name != nil && *port.Name == name) {
			return *port.Port
		}
	}
	return 0
}

// forward proxies to an address in the cluster.
func (s *Streams) forward(w http.ResponseWriter, r *http.Request, t Target, scheme, address, port string) error {
	ip := net.ParseIP(address)
	if ip == nil || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsInterfaceLocalMulticast() || ip.IsUnspecified() {
		return apierrors.NewForbidden(corev1.Resource(t.Resource), t.Name, errors.New("address not allowed"))
	}
	if scheme == "" {
		scheme = "http"
	}
	where := &url.URL{Scheme: scheme, Host: net.JoinHostPort(address, port), Path: proxyPath(t.Path)}
	handler := proxy.NewUpgradeAwareHandler(where, s.workloads, true, false, proxied{t})
	handler.ServeHTTP(w, r)
	return nil
}

// proxyNode reaches the node's agent, and nothing else on that machine.
func (s *Streams) proxyNode(w http.ResponseWriter, r *http.Request, t Target) error {
	to, err := targetOf(t.Name)
	if err != nil {
		return err
	}
	where, err := s.agent(r.Context(), to.name)
	if err != nil {
		return err
	}
	if to.port != "" && to.port != where.Port() {
		return apierrors.NewBadRequest(fmt.Sprintf("of node %s only the agent's port %s can be proxied", to.name, where.Port()))
	}
	where.Path = proxyPath(t.Path)
	handler := proxy.NewUpgradeAwareHandler(where, s.agents, false, false, responder{to.name})
	handler.UseLocationHost = true
	handler.RejectForwardingRedirects = true
	handler.ServeHTTP(w, r)
	return nil
}

// proxyPath is the path at what is proxied. A client that names none, not even a
// slash, is told to: what it reads then may lead on from there.
func proxyPath(path string) string {
	if path != "" && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}

// proxied reports a workload that does not answer.
type proxied struct{ target Target }

// Error implements proxy.ErrorResponder.
func (p proxied) Error(w http.ResponseWriter, _ *http.Request, err error) {
	refuse(w, apierrors.NewServiceUnavailable(fmt.Sprintf("error trying to reach %s %s/%s: %v", p.target.Resource, p.target.Namespace, p.target.Name, err)))
}
