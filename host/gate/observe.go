package gate

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/store"
)

const (
	// maxHeader is how much of an answer's header is read; its body is not.
	maxHeader = 16 << 10
	// maxDetail is how much a guest is told of what an endpoint says.
	maxDetail = 256
)

// Observer looks at the world for checkers, which cannot.
type Observer struct {
	objects Objects
	now     func() time.Time
	client  *http.Client
	// special lets it look at addresses that no pod has.
	special bool

	mu    sync.Mutex
	known map[question]matches
}

// NewObserver makes an observer.
func NewObserver(objects Objects, now func() time.Time) *Observer {
	return &Observer{
		objects: objects, now: now, known: map[question]matches{},
		client: &http.Client{
			Transport: &http.Transport{
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // a pod's own certificate, as probes take it
				ForceAttemptHTTP2: true, DisableKeepAlives: true, DisableCompression: true,
				Proxy: nil, MaxResponseHeaderBytes: maxHeader, DialContext: dial,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Observe makes all observations of one pod, those over the network at once.
func (o *Observer) Observe(ctx context.Context, pod *v1.Pod, wants []abi.Observe) []wire.Observation {
	out := make([]wire.Observation, len(wants))
	var group sync.WaitGroup
	for i := range wants {
		w := &wants[i]
		out[i] = wire.Observation{Name: w.Name, At: o.now().UnixNano()}
		switch w.Kind {
		case abi.ObservePods:
			o.pods(pod, w, &out[i])
		case abi.ObserveObjects:
			o.count(pod, w, &out[i])
		case abi.ObserveNode:
			o.node(pod, w, &out[i])
		case abi.ObserveHTTP, abi.ObserveTCP:
			group.Go(func() { o.attempt(ctx, pod, w, &out[i]) })
		default:
			out[i].Detail = fmt.Sprintf("unknown kind %q: use http, tcp, pods, objects or node", w.Kind)
		}
	}
	group.Wait()
	for i := range out {
		out[i].Detail = abi.Text(out[i].Detail, maxDetail)
	}
	return out
}

// pods tells how many pods match, as Code how many of them are ready.
func (o *Observer) pods(pod *v1.Pod, w *abi.Observe, out *wire.Observation) {
	m, err := o.matching("pods", pod, w)
	if err != nil {
		out.Detail = err.Error()
		return
	}
	out.Code, out.OK = int32(m.ready), m.n > 0 && m.ready == m.n
	out.Detail = fmt.Sprintf("%d of %d pods are ready", m.ready, m.n)
}

// count tells how many objects match, and nothing else about them.
func (o *Observer) count(pod *v1.Pod, w *abi.Observe, out *wire.Observation) {
	m, err := o.matching(w.Resource, pod, w)
	if err != nil {
		out.Detail = err.Error()
		return
	}
	out.Code, out.OK = int32(m.n), m.n > 0
	out.Detail = fmt.Sprintf("%d %s match", m.n, w.Resource)
}

// question is what objects are looked for.
type question struct{ resource, namespace, selector string }

// matches are how many there are; of pods, how many are ready.
type matches struct {
	n, ready int
	at       time.Time
}

const (
	// fresh is how long an answer serves: thousands of pods that wait for the
	// same must not have all objects looked through for each.
	fresh = 200 * time.Millisecond
	// maxKnown is how many answers are kept.
	maxKnown = 1024
)

func (o *Observer) matching(resource string, pod *v1.Pod, w *abi.Observe) (matches, error) {
	q := question{resource, w.Namespace, w.Selector}
	if q.namespace == "" {
		q.namespace = pod.Namespace
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if m, ok := o.known[q]; ok && now.Sub(m.at) < fresh {
		return m, nil
	}
	m, err := o.look(q)
	if err != nil {
		return m, err
	}
	if len(o.known) >= maxKnown {
		clear(o.known)
	}
	m.at = now
	o.known[q] = m
	return m, nil
}

// look counts the objects of a namespace, or of a kind that is in none.
func (o *Observer) look(q question) (m matches, err error) {
	selector, err := labels.Parse(q.selector)
	if err != nil {
		return m, err
	}
	match := func(p store.Object) bool { return selector.Matches(labels.Set(p.GetLabels())) }
	list, err := o.objects.List(q.resource, q.namespace, store.ListOptions{Match: match})
	if err == nil && len(list.Items) == 0 {
		list, err = o.objects.List(q.resource, "", store.ListOptions{Match: func(p store.Object) bool { return p.GetNamespace() == "" && match(p) }})
	}
	for _, found := range list.Items {
		m.n++
		if p, ok := found.(*v1.Pod); ok && isReady(p) {
			m.ready++
		}
	}
	return m, err
}

func isReady(p *v1.Pod) bool {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == v1.PodReady {
			return p.Status.Conditions[i].Status == v1.ConditionTrue
		}
	}
	return false
}

func (o *Observer) node(pod *v1.Pod, w *abi.Observe, out *wire.Observation) {
	found, ok := o.objects.Get(store.Key{Resource: "nodes", Name: pod.Spec.NodeName})
	node, isNode := found.(*v1.Node)
	if !ok || !isNode {
		out.Detail = "the pod's node is gone"
		return
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if string(c.Type) == w.Condition {
			out.OK, out.Detail = c.Status == v1.ConditionTrue, string(c.Status)
			return
		}
	}
	out.Detail = "the node has no condition " + w.Condition
}
