package gate

import (
	"context"
	"errors"
	"log/slog"
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

// Driver asks checkers and writes conditions. Its goroutine keeps the queue; each
// checker has a pool of its own, so that one which waits for what it observes
// holds up no other.
type Driver struct {
	Config
	due *Queue
	// state says where a gate is that was due and is not answered yet; lanes
	// are those that no pool has taken.
	state map[key]state
	lanes map[v1.PodConditionType]*lanes
	pools map[Checker]*pool
	// looked and judged bring what was begun for a pool back to it.
	looked chan look
	judged chan batch
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
func New(cfg Config) *Driver { return &Driver{Config: cfg, due: NewQueue()} }

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
	d.due, d.state = NewQueue(), map[key]state{}
	d.lanes, d.pools = map[v1.PodConditionType]*lanes{}, map[Checker]*pool{}
	d.looked, d.judged = make(chan look, maxLooking), make(chan batch)
	for _, o := range pods.Items {
		if pod, ok := o.(*v1.Pod); ok {
			d.due.Changed(pod, d.Now())
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
			d.due.All(d.Now())
		case l := <-d.looked:
			d.seen(&l)
			for range len(d.looked) {
				l = <-d.looked
				d.seen(&l)
			}
		case r := <-d.judged:
			d.finish(&r)
		case <-timer.C:
		case err := <-ended:
			return err
		}
		d.pass(ctx, &working)
		if at, ok := d.next(); ok {
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
			d.due.Forget(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
			continue
		}
		d.due.Changed(pod, d.Now())
	}
}

// pass queues what is due, and has each pool work on.
func (d *Driver) pass(ctx context.Context, working *sync.WaitGroup) {
	for {
		due := d.due.Due(d.Now(), maxBatch)
		if len(due) == 0 {
			break
		}
		for _, k := range due {
			d.queue(k)
		}
	}
	d.fill(ctx, working)
	for checker, at := range d.pools {
		now := d.Now()
		if when, waits := at.ripens(); waits && !now.Before(when) {
			d.begin(ctx, working, at, now)
		}
		if at.over(now) {
			delete(d.pools, checker)
		}
	}
}

func (d *Driver) queue(k key) {
	switch d.state[k] {
	case 0:
		d.state[k] = queued
		if d.lanes[k.condition] == nil {
			d.lanes[k.condition] = &lanes{}
		}
		d.lanes[k.condition].add(k, d.due.late(k))
	case asking:
		d.state[k] = askingOld
	}
}

// fill gives each pool of what is queued for it as much as it takes. What nobody
// claims is left to others.
func (d *Driver) fill(ctx context.Context, working *sync.WaitGroup) {
	if len(d.lanes) == 0 {
		return
	}
	checkers := d.Checkers()
	for condition, waiting := range d.lanes {
		checker := checkers[condition]
		if checker != nil && d.pools[checker] == nil {
			d.pools[checker] = newPool(checker, d.Observe != nil)
		}
		for {
			k, late, ok := waiting.next(d.pools[checker])
			if !ok {
				break
			}
			if pod := d.pod(k); checker != nil && pod != nil {
				s := item{key: k, late: late, input: d.due.lastInput(k), GatePod: wire.GatePod{Pod: pod, Condition: string(condition)}}
				d.put(ctx, working, d.pools[checker], s)
				continue
			}
			delete(d.state, k)
		}
		if waiting.empty() {
			delete(d.lanes, condition)
		}
	}
}

// put begins to look at a subject, or has it judged if there is nothing to see.
func (d *Driver) put(ctx context.Context, working *sync.WaitGroup, at *pool, s item) {
	d.state[s.key] = asking
	if len(at.wants) == 0 {
		d.keep(at, s)
		return
	}
	at.take(s.late)
	working.Go(func() {
		l := look{at: at, was: s.late, item: s}
		began := d.Now()
		l.Observed = d.Observe(ctx, s.Pod, at.wants)
		l.late = d.Now().Sub(began) >= lateAfter
		select {
		case d.looked <- l:
		case <-ctx.Done():
		}
	})
}

// seen takes in what a look has seen.
func (d *Driver) seen(l *look) {
	l.at.leave(l.was)
	d.due.setLate(l.key, l.late)
	d.keep(l.at, l.item)
}

// keep has a subject judged with others, unless there is nothing new to judge.
func (d *Driver) keep(at *pool, s item) {
	now := d.Now()
	if s.news(at.checker, now) {
		at.keep(s, now)
		return
	}
	a := answer{key: s.key, input: s.input, again: s.input.again}
	if len(at.wants) > 0 {
		a.again = earlier(s.input.until, now.Add(lookEvery))
	}
	d.answered(&a)
}

// begin has a checker judge what its pool has.
func (d *Driver) begin(ctx context.Context, working *sync.WaitGroup, at *pool, now time.Time) {
	subjects := at.gather(now)
	working.Go(func() {
		r := batch{at: at, answers: d.ask(ctx, at.checker, subjects)}
		select {
		case d.judged <- r:
		case <-ctx.Done():
		}
	})
}

// next is when there is something to do, if nothing happens before.
func (d *Driver) next() (time.Time, bool) {
	at, ok := d.due.Next()
	for _, one := range d.pools {
		if ripe, waits := one.ripens(); waits && (!ok || ripe.Before(at)) {
			at, ok = ripe, true
		}
	}
	return at, ok
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

// finish notes when the gates of a batch are due again.
func (d *Driver) finish(r *batch) {
	r.at.judging = false
	for i := range r.answers {
		d.answered(&r.answers[i])
	}
}

func (d *Driver) answered(a *answer) {
	if d.state[a.key] == askingOld {
		a.again = d.Now()
	}
	delete(d.state, a.key)
	d.due.setLastInput(a.key, a.input)
	if !a.again.IsZero() {
		d.due.Requeue(a.key.pod, a.key.condition, a.again)
	}
}
