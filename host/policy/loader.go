package policy

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/host/store"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Objects is the part of the store that the loader uses.
type Objects interface {
	module.Objects
	Revision() int64
	Watch(resource, namespace string, from int64) (*store.Watch, error)
	Update(ctx context.Context, k store.Key, change func(store.Object) (store.Object, error)) (store.Object, error)
}

// Config is what a Loader needs.
type Config struct {
	Objects Objects
	Engine  *engine.Engine
	Reasons *framework.Reasons
	Now     func() time.Time
	Log     *slog.Logger
	// Trusted keys: if there are any, modules must be signed by one of them.
	Trusted module.Keyring
	// Event tells users of a policy's fate.
	Event func(about store.Object, kind, reason, message string)
	// Drives says why a controller does not run, nil if it does; may be nil.
	Drives func(*sandbox.Controller) error
	// Archive finds what a program was made of that has left long ago; may be nil.
	Archive func(identity [32]byte) (*v1alpha1.Policy, []byte, error)
	// Present returns the scheduler's state, so that a guest has taken it in
	// before it goes live. It comes between two cycles: those that began before
	// have ended. May be nil, and may fail while nothing is scheduled.
	Present func(context.Context) (snapshot.Log, error)
}

// Loader makes sets of what the objects say.
type Loader struct {
	Config
	// Modules are what policies are made of.
	Modules  *module.Store
	current  atomic.Pointer[Set]
	wake     chan struct{}
	programs factory
	// drain holds the programs that leave.
	drain drainQueue
	// since is the revision of the first Load: what comes after it is news.
	since atomic.Int64

	subscribers sync.Mutex
	swapped     []chan struct{}

	// What follows belongs to the goroutine that reloads.
	reloading sync.Mutex
	policies  map[string]*live
	// untold says that a status could not be written.
	untold bool
	// background holds the programs that are being loaded; nil where Load waits for them.
	background *backgroundLoads
}

// NewLoader makes a loader. Load brings the first set.
func NewLoader(c Config) *Loader {
	l := &Loader{Config: c, wake: make(chan struct{}, 1), policies: map[string]*live{}}
	l.Modules = module.NewStore(module.Config{Objects: c.Objects, Engine: c.Engine, Trusted: c.Trusted, Now: c.Now, Log: c.Log})
	l.programs = factory{Config: &l.Config, modules: l.Modules, starting: func() bool { return l.Current().Number == 0 }, changed: func() { signal(l.wake) }}
	l.drain.news = make(chan struct{}, 1)
	l.current.Store(&Set{Scheduling: &framework.LiveSet{Profiles: map[string]*framework.Profile{}}})
	return l
}

// Current is the live set.
func (l *Loader) Current() *Set { return l.current.Load() }

// Scheduling is the part of the live set that the scheduler takes.
func (l *Loader) Scheduling() *framework.LiveSet { return l.Current().Scheduling }

// Swapped returns a channel that is told of each new set.
func (l *Loader) Swapped() <-chan struct{} {
	l.subscribers.Lock()
	defer l.subscribers.Unlock()
	c := make(chan struct{}, 1)
	l.swapped = append(l.swapped, c)
	return c
}

func (l *Loader) tell() {
	l.subscribers.Lock()
	defer l.subscribers.Unlock()
	for _, c := range l.swapped {
		signal(c)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const (
	// warmEvery is how often previous programs are told what has changed, and
	// what shadows and canaries have counted is written down.
	warmEvery = 2 * time.Second
)

// Run follows the objects until ctx ends.
func (l *Loader) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 3)
	for _, resource := range []string{v1alpha1.Policies, v1alpha1.Profiles, v1alpha1.Modules} {
		go func() { ended <- l.follow(ctx, resource) }()
	}
	l.loadBeside(ctx)
	defer l.stopLoading()
	var leaving sync.WaitGroup
	leaving.Go(func() { l.drain.run(ctx, l.Present) })
	defer leaving.Wait()
	defer cancel()
	collect, warm := time.NewTicker(module.CollectEvery), time.NewTicker(warmEvery)
	defer collect.Stop()
	defer warm.Stop()
	for {
		select {
		case <-l.wake:
			l.Load(ctx)
		case <-collect.C:
			l.Modules.Collect(ctx)
		case <-warm.C:
			l.keepWarm(ctx)
			l.reportTrials(ctx)
			l.retry()
			l.reportIdle()
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// loadBeside has later loads run in goroutines of their own.
func (l *Loader) loadBeside(ctx context.Context) {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	l.background = &backgroundLoads{ctx: ctx, all: map[string]*pendingLoad{}, done: func() { signal(l.wake) }}
}

// stopLoading waits for loads; the context that they run under has ended.
func (l *Loader) stopLoading() {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	l.background.stop()
	l.background = nil
}

func (l *Loader) follow(ctx context.Context, resource string) error {
	from := l.since.Load()
	if from == 0 {
		from = l.Objects.Revision()
	}
	for ; ; from = l.Objects.Revision() {
		watch, err := l.Objects.Watch(resource, "", from)
		signal(l.wake)
		for err == nil {
			var events []store.Event
			if events, err = watch.Next(ctx); err == nil {
				signal(l.wake)
			}
			if resource == v1alpha1.Modules {
				l.Modules.Forget(events)
			}
		}
		if !errors.Is(err, store.ErrCompacted) {
			return err
		}
	}
}

// Load makes a set of what the objects say now. What does not load leaves the
// last good program of its policy in the set.
func (l *Loader) Load(ctx context.Context) {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	if ctx.Err() != nil {
		return
	}
	policies, profiles, revision, err := l.read()
	if err != nil {
		l.Log.Error("read policies", "err", err)
		return
	}
	l.since.CompareAndSwap(0, revision)
	next, coming := make(map[string]*live, len(policies)), map[string]bool{}
	var news, same []*live
	for _, object := range policies {
		one, fresh := l.take(ctx, l.policies[object.Name], object)
		if one == nil {
			coming[object.Name] = true
			continue
		}
		l.programs.setPriority(one)
		next[object.Name] = one
		if fresh {
			news = append(news, one)
		} else {
			same = append(same, one)
		}
	}
	l.background.forgetUnwanted()
	dropped := l.policies
	l.policies = next
	fresh := len(news) > 0 || len(dropped) != len(next) || l.changed(coming, profiles)
	if fresh {
		l.publish(&Set{Number: revision, policies: next, coming: coming, profiles: profiles, holders: holders(profiles, l.Current().holders)})
		l.Log.Info("policies are live", "set", revision, "policies", len(next))
	}
	for name, one := range dropped {
		if next[name] == nil {
			one.each(l.drain.retire)
			l.programs.guestLogs.Forget(name)
		}
	}
	l.drain.published(l.Present != nil)
	l.report(ctx, append(news, same...), fresh) // somebody waits for the news
}

// report writes statuses. Those of profiles tell of a new set alone.
func (l *Loader) report(ctx context.Context, all []*live, fresh bool) {
	reporter, set, told := reporter{&l.Config}, l.Current(), true
	for _, one := range all {
		one.idle = l.idle(set, one.state.Policy.Name)
		is := one.statusInputs()
		if one.state.Canary.Phase == rollout.Loading || is == one.reported && one.counting() == nil {
			continue
		}
		if reporter.report(ctx, set, one) {
			one.reported = is
		} else {
			told = false
		}
	}
	if fresh || l.untold {
		told = reporter.reportProfiles(ctx, set) && told
	}
	l.untold = !told
}

func (l *Loader) publish(set *Set) {
	set.assemble(asOpened).compare()
	set.Scheduling.OpenDigest = func(ctx context.Context, d *framework.Digest) (*framework.Profile, func(), error) {
		return l.programs.openDigest(ctx, l.Current(), d)
	}
	set.Scheduling.Reopen = func(ctx context.Context) (*framework.LiveSet, func(), error) { return l.programs.reopen(ctx, set) }
	l.current.Store(set)
	l.tell()
}

// changed says whether the profiles, or what they wait for, are others than in the
// live set.
func (l *Loader) changed(coming map[string]bool, profiles []*v1alpha1.Profile) bool {
	old := l.Current().profiles
	if len(old) != len(profiles) || !maps.Equal(coming, l.Current().coming) {
		return true
	}
	for i := range old {
		if old[i].UID != profiles[i].UID || old[i].Generation != profiles[i].Generation || !equality.Semantic.DeepEqual(old[i].Spec, profiles[i].Spec) {
			return true
		}
	}
	return false
}

func (l *Loader) read() (policies []*v1alpha1.Policy, profiles []*v1alpha1.Profile, revision int64, err error) {
	list, err := l.Objects.List(v1alpha1.Policies, "", store.ListOptions{})
	if err != nil {
		return nil, nil, 0, err
	}
	for _, o := range list.Items {
		if p, ok := o.(*v1alpha1.Policy); ok {
			policies = append(policies, p)
		}
	}
	revision = list.Revision
	if list, err = l.Objects.List(v1alpha1.Profiles, "", store.ListOptions{}); err != nil {
		return nil, nil, 0, err
	}
	for _, o := range list.Items {
		if p, ok := o.(*v1alpha1.Profile); ok {
			profiles = append(profiles, p)
		}
	}
	return policies, profiles, max(revision, list.Revision), nil
}

// Close gives back what all programs hold. It is called when nobody asks them
// any more.
func (l *Loader) Close() error {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	for _, one := range l.policies {
		one.each((*version).end)
	}
	clear(l.policies)
	l.drain.drain(l.drain.count())
	l.Modules.Close()
	return nil
}
