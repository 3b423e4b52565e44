package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/policy"
)

const (
	// settle is how long a change waits for others, unless a pod waits for it.
	settle = 10 * time.Millisecond
	// retry is how soon after the kernel refused something it is asked again.
	retry = time.Second
)

// Kernel carries out. nft.Kernel does.
type Kernel interface {
	// Filter makes a change; with complete, all else goes.
	Filter(f forward.Filter, complete bool) error
	// Repair mends what differs from what was applied.
	Repair() error
	// Forget ends what is remembered of flows from and to some addresses.
	Forget(addresses []netip.Addr) error
	// Denied counts the packets that were refused.
	Denied() (ingress, egress uint64, err error)
}

// Config is what an Isolation needs.
type Config struct {
	Client kubernetes.Interface
	// Peers opens the stream of the cluster's pods; nil: there are none but this
	// machine's.
	Peers  func(ctx context.Context) (io.ReadCloser, error)
	Kernel Kernel
	Node   string
	Log    *slog.Logger
}

// Isolation is one node's.
type Isolation struct {
	cfg    Config
	wake   chan struct{}
	counts counts

	mu      sync.Mutex
	changes []func(*state)
	since   time.Time // the first of them came
	hurry   bool      // somebody waits
	done    bool      // nobody works any more
	waiting []chan<- error
}

// errOver: the agent ends.
var errOver = errors.New("the node agent ends")

// New gives one. Nothing changes before Run.
func New(cfg Config) *Isolation {
	return &Isolation{cfg: cfg, wake: make(chan struct{}, 1)}
}

// change has the loop do something.
func (i *Isolation) change(f func(*state)) {
	i.mu.Lock()
	i.add(f)
	i.mu.Unlock()
	i.poke()
}

// add needs the mutex.
func (i *Isolation) add(f func(*state)) {
	if len(i.changes) == 0 {
		i.since = time.Now()
	}
	i.changes = append(i.changes, f)
}

func (i *Isolation) poke() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// await has the loop do something, and waits until the kernel has it.
func (i *Isolation) await(ctx context.Context, f func(*state)) error {
	done := make(chan error, 1)
	i.mu.Lock()
	if i.done {
		i.mu.Unlock()
		return errOver
	}
	i.add(f)
	i.waiting, i.hurry = append(i.waiting, done), true
	i.mu.Unlock()
	i.poke()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the rules of network policies: %w", ctx.Err())
	}
}

// Run works until ctx ends. What it made stays in the kernel.
func (i *Isolation) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return i.followPeers(ctx) })
	group.Go(func() error { return i.follow(ctx) })
	group.Go(func() error { return i.work(ctx) })
	err := group.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.done = true
	for _, w := range i.waiting {
		w <- errOver
	}
	i.waiting = nil
	return err
}

// follow keeps the book's policies and namespaces those of the cluster.
func (i *Isolation) follow(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(i.cfg.Client, 0, informers.WithTransform(trim))
	policies, namespaces := factory.Networking().V1().NetworkPolicies().Informer(), factory.Core().V1().Namespaces().Informer()
	put := func(obj any) {
		switch o := obj.(type) {
		case *networkingv1.NetworkPolicy:
			i.change(func(s *state) { s.book.PutPolicy(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o) })
		case *v1.Namespace:
			i.change(func(s *state) { s.book.PutNamespace(o.Name, o.Labels, true) })
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: put,
		UpdateFunc: func(old, now any) {
			was, ok := old.(*networkingv1.NetworkPolicy)
			if is, same := now.(*networkingv1.NetworkPolicy); ok && same && was.UID == is.UID && was.Generation == is.Generation && is.Generation != 0 {
				return
			}
			put(now)
		},
		DeleteFunc: func(obj any) {
			if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tomb.Obj
			}
			switch o := obj.(type) {
			case *networkingv1.NetworkPolicy:
				i.change(func(s *state) { s.book.PutPolicy(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, nil) })
			case *v1.Namespace:
				i.change(func(s *state) { s.book.PutNamespace(o.Name, nil, false) })
			}
		},
	}
	for _, informer := range []cache.SharedIndexInformer{policies, namespaces} {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return err
		}
		defer func() { _ = informer.RemoveEventHandler(registration) }() // it fails where there is none
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return ctx.Err()
		}
	}
	defer factory.Shutdown()
	i.change(func(s *state) { s.synced = true })
	<-ctx.Done()
	return ctx.Err()
}

// trim drops what policies do not go by.
func trim(obj any) (any, error) {
	switch o := obj.(type) {
	case *v1.Namespace:
		o.ManagedFields, o.Annotations, o.Spec, o.Status = nil, nil, v1.NamespaceSpec{}, v1.NamespaceStatus{}
	case *networkingv1.NetworkPolicy:
		o.ManagedFields, o.Annotations = nil, nil
	}
	return obj, nil
}

// work carries out what came, until ctx ends.
func (i *Isolation) work(ctx context.Context) error {
	s := newState(i)
	defer func() { s.answer(errOver) }()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			if s.repair() != nil || s.forget() != nil {
				timer.Reset(retry)
			}
			continue
		case <-i.wake:
		}
		if err := i.pause(ctx); err != nil {
			return err
		}
		if !s.update() {
			timer.Reset(retry)
		}
	}
}

// pause lets a change wait for others, unless somebody waits for it.
func (i *Isolation) pause(ctx context.Context) error {
	over := time.NewTimer(settle)
	defer over.Stop()
	for !i.hurried() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over.C:
			return nil
		case <-i.wake:
		}
	}
	return nil
}

func (i *Isolation) hurried() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hurry
}

// state belongs to work's goroutine.
type state struct {
	*Isolation
	book *policy.Book
	// synced: all policies and namespaces are known; peersSynced: all pods.
	synced, peersSynced bool
	peers               map[string]bool
	own                 map[string]*own
	attached            map[string]attachment
	complete            bool // the next change is all there is
	behind              bool // the kernel refused something, and does not have it yet
	// arrived and left are addresses of pods that came and went, whose former flows
	// the kernel may know: what has begun is not judged.
	arrived, left []netip.Addr
	pending       []chan<- error
}

func newState(i *Isolation) *state {
	return &state{Isolation: i, book: policy.NewBook(), peers: map[string]bool{}, own: map[string]*own{}, attached: map[string]attachment{}, complete: true}
}

// own is a pod of this machine.
type own struct {
	pod  *v1.Pod
	ever bool // connected by this process
	gone bool // the API has it no more
}

type attachment struct {
	uid string
	ips []netip.Addr
}

// update carries out what came; false: it must be tried again. Nothing is sent
// before all is known: rules of a former process hold till then.
func (s *state) update() bool {
	s.mu.Lock()
	changes, since := s.changes, s.since
	s.pending = append(s.pending, s.waiting...)
	s.changes, s.waiting, s.hurry = nil, nil, false
	s.mu.Unlock()
	for _, f := range changes {
		f(s)
	}
	if !s.synced || !s.peersSynced {
		return true
	}
	err := s.apply(since)
	if err == nil { // not before new ones are judged
		err = s.forget()
	}
	s.answer(err)
	return err == nil
}

// answer tells those who wait.
func (s *state) answer(err error) {
	for _, w := range s.pending {
		w <- err
	}
	s.pending = nil
}

func (s *state) apply(since time.Time) error {
	change := s.book.Change()
	isolated, sets := s.book.Len()
	s.counts.isolated.Store(uint64(isolated))
	s.counts.sets.Store(uint64(sets))
	if change.Empty() && !s.complete {
		return s.catchUp()
	}
	err := s.cfg.Kernel.Filter(change, s.complete)
	s.complete = false // the kernel knows what is wanted, also where it could not do it
	if err != nil {
		s.behind = true
		s.cfg.Log.Error("the rules of network policies cannot be changed; they are tried again", "err", err)
		s.counts.failures.Add(1)
		return fmt.Errorf("isolate by network policies: %w", err)
	}
	if err := s.catchUp(); err != nil {
		return err
	}
	s.counts.took(time.Since(since))
	return nil
}

// catchUp has the kernel do what it refused before: who waits for that again may
// have told nothing new.
func (s *state) catchUp() error {
	if !s.behind {
		return nil
	}
	return s.repair()
}

func (s *state) repair() error {
	if err := s.cfg.Kernel.Repair(); err != nil {
		s.counts.failures.Add(1)
		return fmt.Errorf("isolate by network policies: %w", err)
	}
	s.behind = false
	return nil
}

// forget has what goes on at addresses that changed hands be judged as if it began.
// Where no pod is isolated, one that came waits for none of that.
func (s *state) forget() error {
	if isolated, _ := s.book.Len(); isolated == 0 {
		s.arrived = nil
	}
	all := slices.Concat(s.arrived, s.left)
	if len(all) == 0 {
		return nil
	}
	if err := s.cfg.Kernel.Forget(all); err != nil {
		s.cfg.Log.Error("flows of former pods pass network policies; it is tried again", "err", err)
		s.counts.failures.Add(1)
		return fmt.Errorf("isolate by network policies: %w", err)
	}
	s.arrived, s.left = nil, nil
	return nil
}

// peer writes what another pod of the cluster is; nil is that it is gone.
func (s *state) peer(uid string, p *policy.Pod) {
	if s.own[uid] != nil {
		delete(s.peers, uid)
		return
	}
	if p == nil {
		delete(s.peers, uid)
	} else {
		s.peers[uid] = true
	}
	s.book.Put(uid, p, false)
}

// keepPeers drops those that are not in all.
func (s *state) keepPeers(all map[string]bool) {
	s.peersSynced = true
	for uid := range s.peers {
		if !all[uid] {
			s.peer(uid, nil)
		}
	}
}
