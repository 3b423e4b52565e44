// Package proxy makes Services answer on this machine: it follows the catalog,
// has nodeagent/service work out what changed, and the kernel carry it out.
//
// A change waits for those that come right after it, and no longer. What the
// kernel has is compared with what it should have now and then, and mended.
package proxy

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/berth-dev/berth/nodeagent/catalog"
	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/service"
)

const (
	// settle is how long a change waits for others.
	settle = 10 * time.Millisecond
	// compare is how often the kernel is compared, retry how soon after it
	// refused something.
	compare = time.Minute
	retry   = time.Second
)

// otherProxy is the label of services that another proxy of the cluster serves.
const otherProxy = "service.kubernetes.io/service-proxy-name"

// Kernel carries out. nft.Kernel does.
type Kernel interface {
	// Apply makes a change; with complete, all else goes.
	Apply(c forward.Change, complete bool) error
	// Repair mends what differs from what was applied.
	Repair() error
	// Connections counts those that came to fronts, since it has them.
	Connections() (map[forward.Front]uint64, error)
}

// Config is what a proxy needs.
type Config struct {
	Catalog *catalog.Catalog
	Kernel  Kernel
	// Node tells what this node is now.
	Node func() service.Node
	// Own are cluster addresses that the machine has itself: services there are
	// not forwarded.
	Own []netip.Addr
	// Ports gives the pods of this node that have ports of the machine. Where a
	// Service has such a port, too, Recorder tells who loses it.
	Ports    func() []*v1.Pod
	Recorder record.EventRecorder
	Log      *slog.Logger
}

// Proxy is one node's.
type Proxy struct {
	cfg    Config
	health *health
	wake   chan struct{}

	counts counts
	tally  *tally

	mu    sync.Mutex
	dirty map[types.NamespacedName]bool
	since time.Time // the first of them was noted
	// noted counts what was, done is how much of it the kernel has; moved is closed
	// when that is more.
	noted, done uint64
	moved       chan struct{}
}

// New gives a proxy. Nothing changes before Run.
func New(cfg Config) *Proxy {
	return &Proxy{cfg: cfg, health: newHealth(cfg.Log), wake: make(chan struct{}, 1), tally: newTally(), dirty: map[types.NamespacedName]bool{}, moved: make(chan struct{})}
}

// Run works until ctx ends. What it made stays in the kernel.
func (p *Proxy) Run(ctx context.Context) error {
	defer p.health.close()
	stop, err := p.follow()
	if err != nil {
		return err
	}
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), p.cfg.Catalog.Synced) {
		return ctx.Err()
	}
	state := state{Proxy: p, complete: true}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.wake:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(settle):
			}
			if state.update() {
				continue
			}
		case <-timer.C:
			if state.tend() {
				timer.Reset(compare)
				continue
			}
		}
		timer.Reset(retry)
	}
}

// follow notes which services change.
func (p *Proxy) follow() (stop func(), err error) {
	services, slicesOf := p.cfg.Catalog.Services().Informer(), p.cfg.Catalog.Slices().Informer()
	one, err := services.AddEventHandler(p.handler(func(obj any) (types.NamespacedName, bool) {
		s, ok := obj.(*v1.Service)
		if !ok {
			return types.NamespacedName{}, false
		}
		return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, true
	}))
	if err != nil {
		return nil, err
	}
	two, err := slicesOf.AddEventHandler(p.handler(func(obj any) (types.NamespacedName, bool) {
		s, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok {
			return types.NamespacedName{}, false
		}
		return types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}, true
	}))
	if err != nil {
		return nil, err
	}
	return func() {
		_ = services.RemoveEventHandler(one) // it fails where there is none
		_ = slicesOf.RemoveEventHandler(two)
	}, nil
}

func (p *Proxy) handler(of func(any) (types.NamespacedName, bool)) cache.ResourceEventHandler {
	note := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if name, ok := of(obj); ok {
			p.note(name)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: note, DeleteFunc: note,
		UpdateFunc: func(old, now any) {
			note(old) // a slice may have gone to another service
			note(now)
		},
	}
}

func (p *Proxy) note(name types.NamespacedName) {
	p.mu.Lock()
	if len(p.dirty) == 0 {
		p.since = time.Now()
	}
	p.dirty[name] = true
	p.noted++
	p.mu.Unlock()
	p.Wake()
}

// Settle waits until the kernel has what services are in the catalog now.
func (p *Proxy) Settle(ctx context.Context, names ...types.NamespacedName) {
	for _, name := range names {
		p.note(name) // the informers may not have told yet
	}
	p.mu.Lock()
	want := p.noted
	for p.done < want {
		moved := p.moved
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-moved:
		}
		p.mu.Lock()
	}
	p.mu.Unlock()
}

// settled: the kernel has all up to what was noted.
func (p *Proxy) settled(upTo uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if upTo > p.done {
		p.done = upTo
		close(p.moved)
		p.moved = make(chan struct{})
	}
}

// Wake has the proxy look again at what this node is.
func (p *Proxy) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// state belongs to Run's goroutine.
type state struct {
	*Proxy
	node     service.Node
	book     *service.Book
	complete bool // the next change is all there is
	upTo     uint64
	refused  bool // the kernel has not all up to there, before it is mended
	told     map[string]bool
}

// changed gives what was noted, and since when something was to do.
func (s *state) changed() ([]types.NamespacedName, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upTo = s.noted
	if len(s.dirty) == 0 {
		return nil, time.Now()
	}
	names := slices.Collect(maps.Keys(s.dirty))
	clear(s.dirty)
	return names, s.since
}

// tend compares the kernel with what was applied.
func (s *state) tend() bool {
	if !s.update() {
		return false
	}
	if err := s.cfg.Kernel.Repair(); err != nil {
		s.cfg.Log.Error("service rules cannot be mended; they are tried again", "err", err)
		s.counts.failures.Add(1)
		return false
	}
	s.refused = false
	s.settled(s.upTo)
	return true
}

// update carries out what was noted; the first time, and where this node has
// become another, everything.
func (s *state) update() bool {
	names, since := s.changed()
	if now := s.cfg.Node(); s.book == nil || !same(now, s.node) {
		s.node, s.book, s.complete = now, service.NewBook(now), true
		all, err := s.cfg.Catalog.Services().Lister().List(labels.Everything())
		if err != nil {
			s.cfg.Log.Error("list services", "err", err)
			s.book = nil
			return false
		}
		for _, svc := range all {
			names = append(names, types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
		}
	}
	for _, name := range names {
		s.put(name)
	}
	s.counts.services.Store(uint64(s.book.Len()))
	done := s.apply(since)
	if done && !s.refused {
		s.settled(s.upTo)
	}
	s.tellClashes()
	return done
}

func same(a, b service.Node) bool {
	return a.Name == b.Name && a.Zone == b.Zone && slices.Equal(a.Addresses, b.Addresses)
}

func (s *state) put(name types.NamespacedName) {
	svc, err := s.cfg.Catalog.Services().Lister().Services(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) || err == nil && !s.serves(svc) {
		s.book.Put(name, nil, nil)
		return
	}
	if err == nil {
		s.book.Put(name, svc, s.cfg.Catalog.SlicesOf(name.Namespace, name.Name))
	}
}

func (s *state) serves(svc *v1.Service) bool {
	_, other := svc.Labels[otherProxy]
	return !other && !slices.ContainsFunc(service.ClusterIPs(svc), func(a netip.Addr) bool { return slices.Contains(s.cfg.Own, a) })
}

func (s *state) apply(since time.Time) bool {
	s.health.set(s.book.Health())
	change := s.book.Change()
	s.tally.own(change, s.complete, s.book.Owner)
	if change.Empty() && !s.complete {
		return true
	}
	if err := s.cfg.Kernel.Apply(change, s.complete); err != nil {
		s.cfg.Log.Error("service rules cannot be changed; they are tried again", "err", err)
		s.complete, s.refused = false, true // the kernel knows what is wanted
		s.counts.failures.Add(1)
		return false
	}
	s.complete = false
	s.counts.took(time.Since(since))
	return true
}
