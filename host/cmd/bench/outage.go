package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// outage is what became of connections while a forwarder was dead, and before and
// after.
type outage struct {
	mu           sync.Mutex
	made, failed int
	slowest      time.Duration
	why          error // of the first that failed
	// knows is how long after its start connections went to an endpoint that came
	// while it was dead.
	knows time.Duration
}

const (
	keptService = "kept"
	keptAddress = "10.96.0.60"
	// Clients of a node, and how often each connects: 2,000 times a second together.
	keptClients = 20
	keptEvery   = 10 * time.Millisecond
)

// keep makes the Service that is asked, whose endpoint is a pod of another node.
func (r *rig) keep(ctx context.Context) error {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: keptService}, Spec: v1.ServiceSpec{ClusterIP: keptAddress, Ports: []v1.ServicePort{{Port: farPort}}}}
	if _, err := r.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, s, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := r.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, keptSlice(0), metav1.CreateOptions{})
	return err
}

func keptSlice(pod int) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: keptService, Labels: map[string]string{discoveryv1.LabelServiceName: keptService}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](farPort), Protocol: ptr.To(v1.ProtocolTCP)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{farAddress(pod)}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}
}

// outlive kills a forwarder that runs, and starts it again, while a pod of the node
// connects to the Service; in between its endpoint becomes another. Before each, and
// after the last, some time passes.
func (r *rig) outlive(ctx context.Context, f *forwarder, n *node, pod int, between time.Duration) (*outage, error) {
	out, stop := &outage{}, make(chan struct{})
	var clients sync.WaitGroup
	for range keptClients {
		clients.Go(func() { out.note(0, n.pod.within(func() error { return out.ask(stop) })) })
	}
	err := func() error {
		if err := pause(ctx, between); err != nil {
			return err
		}
		f.end()
		if _, err := r.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Update(ctx, keptSlice(pod), metav1.UpdateOptions{}); err != nil {
			return err
		}
		if err := pause(ctx, between); err != nil {
			return err
		}
		if n := n.asked(farAddress(pod)); n > 0 {
			return fmt.Errorf("%d connections went to an endpoint that nobody knows", n)
		}
		began := time.Now()
		if err := f.start(n); err != nil {
			return err
		}
		if err := f.await(ctx, "no connection goes to the new endpoint", time.Millisecond, func() bool { return n.asked(farAddress(pod)) > 0 }); err != nil {
			return err
		}
		out.knows = time.Since(began)
		return pause(ctx, between)
	}()
	close(stop)
	clients.Wait()
	return out, err
}

// ask connects all the time, on this thread.
func (o *outage) ask(stop <-chan struct{}) error {
	tick := time.NewTicker(keptEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
			began := time.Now()
			err := connect(fmt.Sprint(keptAddress, ":", farPort))
			o.mu.Lock()
			o.made++
			o.mu.Unlock()
			o.note(time.Since(began), err)
		}
	}
}

func (o *outage) note(took time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slowest = max(o.slowest, took)
	if err != nil {
		o.failed++
		if o.why == nil {
			o.why = err
		}
	}
}
