package gate

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/store"
)

// Objects is the part of the store that the driver uses.
type Objects interface {
	Get(store.Key) (store.Object, bool)
	List(resource, namespace string, opts store.ListOptions) (store.List, error)
	Watch(resource, namespace string, from int64) (*store.Watch, error)
	Update(ctx context.Context, k store.Key, change func(store.Object) (store.Object, error)) (store.Object, error)
}

// Config is what a Driver needs.
type Config struct {
	Objects Objects
	// Checkers are those that are live, by the condition type that they claim;
	// asked anew for each pass.
	Checkers func() map[v1.PodConditionType]Checker
	// Swapped is signalled when Checkers changed.
	Swapped <-chan struct{}
	// Observe makes a checker's observations of a pod.
	Observe func(ctx context.Context, pod *v1.Pod, wants []abi.Observe) []wire.Observation
	Now     func() time.Time
	Log     *slog.Logger
}

// Driver asks checkers and writes conditions. Its goroutine keeps the book;
// each checker has one round of its own under way at most, so that one which
// waits for what it observes holds up no other.
type Driver struct {
	Config
	book *Book
	// state says where a gate is that was due and is not answered yet; queued
	// are those that no round has taken.
	state    map[key]state
	queued   []key
	rounds   map[Checker]bool
	finished chan round
}

// state of a gate that is due.
type state uint8

const (
	queued state = iota + 1
	asking
	// askingOld is one that became due again while it was asked about.
	askingOld
)

// New makes a driver.
func New(cfg Config) *Driver { return &Driver{Config: cfg, book: NewBook()} }

// Run works until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	for {
		err := d.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, store.ErrCompacted) {
			return err
		}
	}
}

// follow reads all pods and then their changes.
func (d *Driver) follow(ctx context.Context) error {
	pods, err := d.Objects.List("pods", "", store.ListOptions{})
	if err != nil {
		return err
	}
	d.book, d.state, d.queued = NewBook(), map[key]state{}, nil
	d.rounds, d.finished = map[Checker]bool{}, make(chan round)
	for _, o := range pods.Items {
		if pod, ok := o.(*v1.Pod); ok {
			d.book.Changed(pod, d.Now())
		}
	}
	watch, err := d.Objects.Watch("pods", "", pods.Revision)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	events := make(chan []store.Event)
	ended := make(chan error, 1)
	working.Go(func() { ended <- pump(ctx, watch, events) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case batch := <-events:
			d.take(batch)
		case <-d.Swapped:
			d.book.All(d.Now())
		case r := <-d.finished:
			d.finish(&r)
		case <-timer.C:
		case err := <-ended:
			return err
		}
		d.pass(ctx, &working)
		if at, ok := d.book.Next(); ok {
			timer.Reset(max(at.Sub(d.Now()), 0))
		}
	}
}

func pump(ctx context.Context, watch *store.Watch, out chan<- []store.Event) error {
	for {
		events, err := watch.Next(ctx)
		if err != nil {
			return err
		}
		select {
		case out <- events:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *Driver) take(events []store.Event) {
	for i := range events {
		pod, ok := events[i].Object.(*v1.Pod)
		if !ok {
			continue
		}
		if events[i].Type == store.Deleted {
			d.book.Forget(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
			continue
		}
		d.book.Changed(pod, d.Now())
	}
}

// pass queues what is due, and begins a round for each checker that has none.
func (d *Driver) pass(ctx context.Context, working *sync.WaitGroup) {
	for {
		due := d.book.Due(d.Now(), batch)
		if len(due) == 0 {
			break
		}
		for _, k := range due {
			switch d.state[k] {
			case 0:
				d.state[k] = queued
				d.queued = append(d.queued, k)
			case asking:
				d.state[k] = askingOld
			}
		}
	}
	if len(d.queued) == 0 {
		return
	}
	for checker, subjects := range d.sort(d.Checkers()) {
		d.rounds[checker] = true
		working.Go(func() {
			r := d.ask(ctx, checker, subjects)
			select {
			case d.finished <- r:
			case <-ctx.Done():
			}
		})
	}
}

// sort takes the next batch for each checker out of the queue. What nobody
// claims is left to others.
func (d *Driver) sort(checkers map[v1.PodConditionType]Checker) map[Checker][]subject {
	sorted := map[Checker][]subject{}
	d.queued = slices.DeleteFunc(d.queued, func(k key) bool {
		checker := checkers[k.condition]
		if checker != nil && (d.rounds[checker] || len(sorted[checker]) >= batchOf(checker.Observes())) {
			return false
		}
		pod := d.pod(k)
		if checker == nil || pod == nil {
			delete(d.state, k)
			return true
		}
		d.state[k] = asking
		sorted[checker] = append(sorted[checker], subject{key: k, told: d.book.told(k), GatePod: wire.GatePod{Pod: pod, Condition: string(k.condition)}})
		return true
	})
	return sorted
}

// pod is the pod of a gate, nil if there is nothing to ask about it any more.
func (d *Driver) pod(k key) *v1.Pod {
	o, ok := d.Objects.Get(store.Key{Resource: "pods", Namespace: k.pod.Namespace, Name: k.pod.Name})
	if !ok {
		return nil
	}
	if pod, ok := o.(*v1.Pod); ok && gated(pod) {
		return pod
	}
	return nil
}

// finish notes when the gates of a round are due again.
func (d *Driver) finish(r *round) {
	delete(d.rounds, r.checker)
	for i := range r.answers {
		a := &r.answers[i]
		if d.state[a.key] == askingOld {
			a.again = d.Now()
		}
		delete(d.state, a.key)
		d.book.tell(a.key, a.told)
		if !a.again.IsZero() {
			d.book.Again(a.key.pod, a.key.condition, a.again)
		}
	}
}
