package usage

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

const (
	// resolution is the time between two reports of a node.
	resolution = 15 * time.Second
	// soon is when a node is asked again of which there is one report only.
	soon = time.Second
	// timeout is how long a node may take to answer.
	timeout = 10 * time.Second
	// atOnce bounds the nodes that are asked side by side.
	atOnce = 16
)

// Objects is what the meter reads of the store.
type Objects interface {
	Get(ctx context.Context, key store.Key) (store.Object, error)
	List(ctx context.Context, resource, namespace string) ([]store.Object, error)
}

// Ask gets a path of a node's agent.
type Ask func(ctx context.Context, node, path string) ([]byte, error)

// Meter keeps the newest two reports of each node.
type Meter struct {
	objects Objects
	ask     Ask
	log     *slog.Logger

	mu    sync.Mutex
	nodes map[string]reports
}

type reports struct{ former, latest *statsv1alpha1.Summary }

// New makes a meter; Run feeds it.
func New(objects Objects, ask Ask, log *slog.Logger) *Meter {
	return &Meter{objects: objects, ask: ask, log: log, nodes: map[string]reports{}}
}

// Run asks all nodes for reports until ctx ends.
func (m *Meter) Run(ctx context.Context) error {
	for {
		wait := resolution
		if err := m.round(ctx); err != nil {
			m.log.Warn("list nodes to ask for their use", "err", err)
		} else if m.young() {
			wait = soon
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// young tells that a node has one report only.
func (m *Meter) young() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.nodes {
		if r.former == nil {
			return true
		}
	}
	return false
}

// round asks every node that has an agent once. A node that does not answer is
// forgotten: old figures would look like new ones.
func (m *Meter) round(ctx context.Context) error {
	nodes, err := m.objects.List(ctx, "nodes", "")
	if err != nil {
		return err
	}
	seats := make(chan struct{}, atOnce)
	var asked sync.WaitGroup
	present := map[string]bool{}
	for _, object := range nodes {
		node, ok := object.(*corev1.Node)
		if !ok || node.Status.DaemonEndpoints.KubeletEndpoint.Port == 0 {
			continue
		}
		present[node.Name] = true
		seats <- struct{}{}
		asked.Go(func() {
			defer func() { <-seats }()
			m.report(ctx, node.Name)
		})
	}
	asked.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.nodes {
		if !present[name] {
			delete(m.nodes, name)
		}
	}
	return nil
}

func (m *Meter) report(ctx context.Context, node string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	summary := &statsv1alpha1.Summary{}
	body, err := m.ask(ctx, node, "/stats/summary")
	if err == nil {
		err = json.Unmarshal(body, summary)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.nodes, node)
		m.log.Debug("a node does not tell its use", "node", node, "err", err)
		return
	}
	m.nodes[node] = reports{former: m.nodes[node].latest, latest: summary}
}
