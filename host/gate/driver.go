package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
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

// batch is how many pods one call of a checker judges.
const batch = 256

// retry is when a checker that failed is asked again.
const retry = 10 * time.Second

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

// Driver asks checkers and writes conditions.
type Driver struct {
	Config
	book *Book
}

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
	d.book = NewBook()
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
	defer cancel()
	events := make(chan []store.Event)
	ended := make(chan error, 1)
	go func() { ended <- pump(ctx, watch, events) }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case batch := <-events:
			d.take(batch)
		case <-d.Swapped:
			d.book.All(d.Now())
		case <-timer.C:
		case err := <-ended:
			return err
		}
		d.pass(ctx)
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

// pass judges what is due, a batch for each checker at a time.
func (d *Driver) pass(ctx context.Context) {
	for ctx.Err() == nil {
		due := d.book.Due(d.Now(), batch)
		if len(due) == 0 {
			return
		}
		checkers := d.Checkers()
		for checker, subjects := range d.sort(ctx, checkers, due) {
			d.judge(ctx, checker, subjects)
		}
	}
}

// sort groups what is due by the checker that claims it; what nobody claims is
// left to others.
func (d *Driver) sort(ctx context.Context, checkers map[v1.PodConditionType]Checker, due []key) map[Checker][]wire.GatePod {
	sorted := map[Checker][]wire.GatePod{}
	for _, k := range due {
		checker := checkers[k.condition]
		if checker == nil {
			continue
		}
		o, ok := d.Objects.Get(store.Key{Resource: "pods", Namespace: k.pod.Namespace, Name: k.pod.Name})
		if !ok {
			continue
		}
		pod, ok := o.(*v1.Pod)
		if !ok || !gated(pod) {
			continue
		}
		sorted[checker] = append(sorted[checker], wire.GatePod{Pod: pod, Condition: string(k.condition)})
	}
	for checker, subjects := range sorted {
		d.observe(ctx, checker.Observes(), subjects)
	}
	return sorted
}

// observe looks at some pods at a time: attempts that get no answer take long.
func (d *Driver) observe(ctx context.Context, wants []abi.Observe, subjects []wire.GatePod) {
	if len(wants) == 0 || d.Observe == nil {
		return
	}
	var group errgroup.Group
	group.SetLimit(mostAttempts)
	for i := range subjects {
		group.Go(func() error {
			subjects[i].Observed = d.Observe(ctx, subjects[i].Pod, wants)
			return nil
		})
	}
	_ = group.Wait()
}

func (d *Driver) judge(ctx context.Context, checker Checker, subjects []wire.GatePod) {
	now := d.Now()
	verdicts, err := checker.Judge(ctx, now.UnixNano(), subjects)
	if err == nil && len(verdicts) != len(subjects) {
		err = fmt.Errorf("%d answers for %d pods", len(verdicts), len(subjects))
	}
	if err != nil {
		d.Log.Warn("judge gates", "policy", checker.Name(), "err", err)
		verdicts = unknown(len(subjects), err)
	}
	for i, v := range verdicts {
		s := &subjects[i]
		name := types.NamespacedName{Namespace: s.Pod.Namespace, Name: s.Pod.Name}
		condition := v1.PodConditionType(s.Condition)
		if v.AskAgainNanos > 0 {
			d.book.Again(name, condition, now.Add(time.Duration(v.AskAgainNanos)))
		}
		if err := d.write(ctx, s, v, now); err != nil && ctx.Err() == nil {
			d.Log.Warn("write condition", "pod", name.String(), "condition", s.Condition, "err", err)
			d.book.Again(name, condition, now.Add(time.Second))
		}
	}
}

// unknown is what holds when a checker failed: nobody knows.
func unknown(n int, err error) []abi.Readiness {
	verdicts := make([]abi.Readiness, n)
	for i := range verdicts {
		verdicts[i] = abi.Readiness{Status: "Unknown", Reason: "CheckerFailed", Message: err.Error(), AskAgainNanos: int64(retry)}
	}
	return verdicts
}

func (d *Driver) write(ctx context.Context, s *wire.GatePod, v abi.Readiness, now time.Time) error {
	if withCondition(s.Pod, v1.PodConditionType(s.Condition), v, now) == s.Pod {
		return nil
	}
	_, err := d.Objects.Update(ctx, store.Key{Resource: "pods", Namespace: s.Pod.Namespace, Name: s.Pod.Name}, func(o store.Object) (store.Object, error) {
		pod, ok := o.(*v1.Pod)
		if !ok || pod.UID != s.Pod.UID {
			return o, nil
		}
		return withCondition(pod, v1.PodConditionType(s.Condition), v, now), nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
