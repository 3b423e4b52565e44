package gate

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/store"
)

// mostAttempts is how many network attempts are under way at a time.
const mostAttempts = 64

// Observer looks at the world for checkers, which cannot.
type Observer struct {
	objects  Objects
	now      func() time.Time
	client   *http.Client
	attempts chan struct{}
}

// NewObserver makes an observer.
func NewObserver(objects Objects, now func() time.Time) *Observer {
	return &Observer{
		objects: objects, now: now, attempts: make(chan struct{}, mostAttempts),
		client: &http.Client{
			Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil},
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
	return out
}

func (o *Observer) attempt(ctx context.Context, pod *v1.Pod, w *abi.Observe, out *wire.Observation) {
	if pod.Status.PodIP == "" {
		out.Detail = "the pod has no address yet"
		return
	}
	select {
	case o.attempts <- struct{}{}:
		defer func() { <-o.attempts }()
	case <-ctx.Done():
		out.Detail = ctx.Err().Error()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout(w))
	defer cancel()
	address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(w.Port)))
	if w.Kind == abi.ObserveTCP {
		o.connect(ctx, address, out)
		return
	}
	o.get(ctx, "http://"+address+"/"+strings.TrimPrefix(w.Path, "/"), out)
}

func (o *Observer) connect(ctx context.Context, address string, out *wire.Observation) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		out.Detail = err.Error()
		return
	}
	_ = connection.Close()
	out.OK = true
}

func (o *Observer) get(ctx context.Context, url string, out *wire.Observation) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		out.Detail = err.Error()
		return
	}
	answer, err := o.client.Do(r)
	if err != nil {
		out.Detail = err.Error()
		return
	}
	defer answer.Body.Close()
	out.Code, out.Detail = int32(answer.StatusCode), answer.Status
	out.OK = answer.StatusCode >= 200 && answer.StatusCode < 400
}

// pods tells how many pods match, as Code how many of them are ready.
func (o *Observer) pods(pod *v1.Pod, w *abi.Observe, out *wire.Observation) {
	list, err := o.matching("pods", pod, w)
	if err != nil {
		out.Detail = err.Error()
		return
	}
	for _, found := range list.Items {
		if p, ok := found.(*v1.Pod); ok && isReady(p) {
			out.Code++
		}
	}
	out.OK = len(list.Items) > 0 && int(out.Code) == len(list.Items)
	out.Detail = fmt.Sprintf("%d of %d pods are ready", out.Code, len(list.Items))
}

// count tells how many objects match, and nothing else about them.
func (o *Observer) count(pod *v1.Pod, w *abi.Observe, out *wire.Observation) {
	list, err := o.matching(w.Resource, pod, w)
	if err != nil {
		out.Detail = err.Error()
		return
	}
	out.Code, out.OK = int32(len(list.Items)), len(list.Items) > 0
	out.Detail = fmt.Sprintf("%d %s match", len(list.Items), w.Resource)
}

func (o *Observer) matching(resource string, pod *v1.Pod, w *abi.Observe) (store.List, error) {
	selector, err := labels.Parse(w.Selector)
	if err != nil {
		return store.List{}, err
	}
	namespace := w.Namespace
	if namespace == "" {
		namespace = pod.Namespace
	}
	return o.objects.List(resource, namespace, store.ListOptions{Match: func(p store.Object) bool {
		return selector.Matches(labels.Set(p.GetLabels()))
	}})
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
