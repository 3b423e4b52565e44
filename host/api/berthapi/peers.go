package berthapi

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/store"
)

// PeersPath streams what nodes must know of others' pods to filter by network
// policies, and no more: a node may not read other pods.
const PeersPath = "/berth/v1/peers"

const (
	// peersFormat names what is made of a pod and kept with it for all nodes.
	peersFormat = "berth.peers/v1"
	// beatEvery is how often a quiet stream shows that it lives.
	beatEvery = 20 * time.Second
	// peersTime is how long a stream lasts at least; and again so long at most.
	peersTime = 30 * time.Minute
)

// Peer is a line of the stream, as JSON: a pod that has addresses of its own; or
// one that has not any more (Gone); or, once, that all there were have been told
// (Synced); or nothing, a sign of life.
type Peer struct {
	UID       string            `json:"uid,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name,omitempty"`
	Node      string            `json:"node,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	IPs       []string          `json:"ips,omitempty"`
	Ports     []PeerPort        `json:"ports,omitempty"`
	Gone      bool              `json:"gone,omitempty"`
	Synced    bool              `json:"synced,omitempty"`
}

// PeerPort is a container's port that has a name.
type PeerPort struct {
	Name     string          `json:"name"`
	Port     int32           `json:"port"`
	Protocol corev1.Protocol `json:"protocol"`
}

// encodePeer gives a pod's line; none for one without addresses of its own.
func encodePeer(obj store.Object) ([]byte, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.HostNetwork || len(pod.Status.PodIPs) == 0 || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil, nil
	}
	p := Peer{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Labels: pod.Labels}
	for _, ip := range pod.Status.PodIPs {
		p.IPs = append(p.IPs, ip.IP)
	}
	add := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if port.Name != "" {
				p.Ports = append(p.Ports, PeerPort{port.Name, port.ContainerPort, port.Protocol})
			}
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return line(&p)
}

func line(p *Peer) ([]byte, error) {
	b, err := json.Marshal(p)
	return append(b, '\n'), err
}

// peers answers GET /berth/v1/peers, until the client goes or the stream's time is
// over; then the client asks again.
func (a *API) peers(w http.ResponseWriter, r *http.Request) {
	list, err := a.Store.List("pods", "", store.ListOptions{})
	var watch *store.Watch
	if err == nil {
		watch, err = a.Store.Watch("pods", "", list.Revision)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json; stream=lines")
	s := &peerStream{w: timely{w}}
	for i := range list.Items {
		text, err := list.Shared(i, peersFormat, encodePeer)
		if err == nil {
			err = s.write(text)
		}
		if err != nil {
			return
		}
	}
	if s.tell(&Peer{Synced: true}) == nil && s.flush() == nil {
		list = store.List{} // not kept while the stream goes on
		s.follow(r.Context(), watch)
	}
}

// peerStream is one node's.
type peerStream struct {
	w   timely
	out bytes.Buffer
}

func (s *peerStream) follow(ctx context.Context, watch *store.Watch) {
	ctx, cancel := context.WithTimeout(ctx, peersTime+rand.N(peersTime))
	defer cancel()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		events, err := watch.NextBefore(ctx, beat.C)
		if err != nil {
			return // also where it fell behind: the client begins anew
		}
		for i := range events {
			if err := s.event(&events[i]); err != nil {
				return
			}
		}
		if len(events) == 0 {
			if err := s.tell(&Peer{}); err != nil {
				return
			}
		}
		if err := s.flush(); err != nil {
			return
		}
	}
}

// event tells what changed of a pod, if it matters.
func (s *peerStream) event(e *store.Event) error {
	var was []byte
	if e.Prev != nil {
		var err error
		if was, err = encodePeer(e.Prev); err != nil {
			return err
		}
	}
	now, err := e.Shared(peersFormat, encodePeer)
	if err != nil {
		return err
	}
	if e.Type == store.Deleted || len(now) == 0 {
		if len(was) == 0 && len(now) == 0 {
			return nil
		}
		return s.tell(&Peer{UID: string(e.Object.GetUID()), Gone: true})
	}
	if bytes.Equal(was, now) {
		return nil
	}
	return s.write(now)
}

func (s *peerStream) tell(p *Peer) error {
	text, err := line(p)
	if err != nil {
		return err
	}
	return s.write(text)
}

// write gathers lines, and sends them when they are many.
func (s *peerStream) write(text []byte) error {
	s.out.Write(text)
	if s.out.Len() < 64<<10 {
		return nil
	}
	return s.flush()
}

// flush sends what is gathered.
func (s *peerStream) flush() error {
	if s.out.Len() == 0 {
		return nil
	}
	_, err := s.w.Write(s.out.Bytes())
	s.out.Reset()
	return err
}
