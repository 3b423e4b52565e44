package worker

import (
	"context"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// relistEvery is how often the runtime is looked at without an event.
const relistEvery = 10 * time.Second

// relistGap is the least time between two looks; relistShare is the share of the time,
// one in so many, that looking may take, where there is much to look at.
const (
	relistGap   = 20 * time.Millisecond
	relistShare = 8
)

// answerWithin is how long the runtime may take for one call that waits for
// nothing but itself, as the kubelet has it.
const answerWithin = 2 * time.Minute

// Pool runs a worker for each pod.
type Pool struct {
	deps  Deps
	dirty chan struct{}

	mu      sync.Mutex
	ctx     context.Context // of Run; set before the first worker starts
	workers map[string]*worker
	wg      sync.WaitGroup
	// ending says that Run waits for the workers: no further one starts.
	ending bool
	// found is what ran at the start without a record, by UID, until its pod is
	// known.
	found map[string]runtime.Listing
	// listed is when the last successful listing began.
	listed time.Time
	// turns bound what runs side by side; came counts the pods.
	turns *turns
	came  uint64
}

// turnsPerProcessor is how many pods a processor starts or takes down at once: one
// waits for the disk or the kernel while another computes.
const turnsPerProcessor = 2

// NewPool gives a pool without pods.
func NewPool(d Deps) *Pool {
	return &Pool{deps: d, dirty: make(chan struct{}, 1), workers: map[string]*worker{}, turns: newTurns(turnsPerProcessor * goruntime.NumCPU())}
}

// Adopt takes over the records of an earlier life of the agent. It comes
// before Run.
func (p *Pool) Adopt(records []*pod.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range records {
		p.workers[string(r.Pod.UID)] = newWorker(&p.deps, r, p)
	}
}

// Run works until ctx ends, and returns when every worker has stopped. The
// containers go on.
func (p *Pool) Run(ctx context.Context) error {
	all, err := p.relist(ctx) // what runs is known before anything is started
	for err != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		all, err = p.relist(ctx)
	}
	p.mu.Lock()
	p.found = ByPod(all)
	p.ctx = ctx
	for _, w := range p.workers {
		p.pickUp(w)
		p.start(w)
	}
	p.mu.Unlock()
	p.wg.Go(func() { p.listen(ctx) })
	p.watch(ctx)
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	p.wg.Wait()
	return ctx.Err()
}

// pickUp shows a worker what an earlier life of the agent started for its pod;
// p.mu is held, and the worker does not run yet.
func (p *Pool) pickUp(w *worker) {
	l, ok := p.found[w.uid]
	if !ok {
		return
	}
	delete(p.found, w.uid)
	message := w.messages(l)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rec.Observe(l, message, time.Now())
	w.rec.Rejected = nil
}

// start runs a worker; p.mu is held and Run has begun.
func (p *Pool) start(w *worker) {
	if p.ending {
		return
	}
	ctx := p.ctx
	p.wg.Go(func() {
		if w.run(ctx) {
			p.mu.Lock()
			delete(p.workers, w.uid)
			p.mu.Unlock()
		}
	})
}

// Set brings in a pod's newest version. admit is asked once, when the pod is
// new: a verdict refuses it.
func (p *Pool) Set(obj *v1.Pod, admit func(active []*v1.Pod) *pod.Verdict) {
	uid := string(obj.UID)
	p.mu.Lock()
	w, ok := p.workers[uid]
	if ok {
		p.mu.Unlock()
		w.change(func(r *pod.Record) { r.Update(obj, time.Now()) })
		return
	}
	active := p.active()
	p.mu.Unlock()
	rec := pod.New(obj, time.Now())
	switch {
	case pod.Terminal(obj.Status.Phase):
		rec.Settled, rec.Touched = true, true // an earlier life may have left something
	case admit != nil && obj.DeletionTimestamp == nil:
		rec.Rejected = admit(active)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w = newWorker(&p.deps, rec, p)
	p.workers[uid] = w
	if p.ctx == nil {
		return
	}
	p.pickUp(w)
	p.start(w)
	p.Relist()
}

// others lists the pods that hold resources, but one.
func (p *Pool) others(uid string) []*v1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(p.active(), func(o *v1.Pod) bool { return string(o.UID) == uid })
}

// active lists the pods that hold resources, with those that they hold; p.mu
// is held.
func (p *Pool) active() []*v1.Pod {
	var out []*v1.Pod
	for _, w := range p.workers {
		w.mu.Lock()
		if w.rec.Active() {
			out = append(out, w.rec.Holds())
		}
		w.mu.Unlock()
	}
	return out
}

// Keep asks which pods the API has; all others that are there before it asks are told
// to go.
func (p *Pool) Keep(known func() map[string]bool) {
	all := p.all()
	uids := known()
	for _, w := range all {
		if !uids[w.uid] {
			w.change(func(r *pod.Record) { r.Remove(time.Now()) })
		}
	}
}

// Delete notes that the API has a pod no more.
func (p *Pool) Delete(uid string) {
	p.mu.Lock()
	w, ok := p.workers[uid]
	p.mu.Unlock()
	if ok {
		w.change(func(r *pod.Record) { r.Remove(time.Now()) })
	}
}

// End stops a pod that nobody deleted, such as by eviction.
func (p *Pool) End(uid string, v pod.Verdict, grace time.Duration) {
	p.mu.Lock()
	w, ok := p.workers[uid]
	p.mu.Unlock()
	if ok {
		w.change(func(r *pod.Record) { r.End(v, grace, time.Now()) })
	}
}

func (p *Pool) all() []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*worker, 0, len(p.workers))
	for _, w := range p.workers {
		out = append(out, w)
	}
	return out
}

// View gives f the record of a pod by namespace and name, the newest where
// several share them; f must not keep it. It says whether there is one.
func (p *Pool) View(namespace, name string, f func(*pod.Record)) bool {
	workers := p.all()
	slices.SortFunc(workers, func(a, b *worker) int { return strings.Compare(a.uid, b.uid) })
	var found *worker
	for _, w := range workers {
		w.mu.Lock()
		if w.rec.Pod.Namespace == namespace && w.rec.Pod.Name == name && (found == nil || !w.rec.Gone) {
			found = w
		}
		w.mu.Unlock()
	}
	if found == nil {
		return false
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	f(found.rec)
	return true
}

// Each gives f every record in turn; f must not keep it.
func (p *Pool) Each(f func(*pod.Record)) {
	for _, w := range p.all() {
		w.mu.Lock()
		f(w.rec)
		w.mu.Unlock()
	}
}

// Relist asks for a look at the runtime soon.
func (p *Pool) Relist() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// watch lists when something may have changed.
func (p *Pool) watch(ctx context.Context) {
	ticker := time.NewTicker(relistEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
		case <-ticker.C:
		}
		began := time.Now()
		_, _ = p.relist(ctx)
		select { // many events make one look
		case <-ctx.Done():
			return
		case <-time.After(max(relistGap, relistShare*time.Since(began))):
		}
	}
}

// listen turns the runtime's events into looks at it.
func (p *Pool) listen(ctx context.Context) {
	for ctx.Err() == nil {
		events, err := p.deps.Runtime.Events(ctx)
		if err != nil {
			p.deps.Log.Warn("follow the runtime's events", "err", err)
		} else {
			p.Relist() // what happened before we listened made no event for us
			for range events {
				p.Relist()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// Listed is when the runtime was last seen whole.
func (p *Pool) Listed() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listed
}

func (p *Pool) relist(ctx context.Context) (runtime.Listing, error) {
	began := time.Now()
	listing, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	all, err := p.deps.Runtime.List(listing)
	if err != nil {
		if ctx.Err() == nil {
			p.deps.Log.Warn("list containers", "err", err)
		}
		return all, err
	}
	p.mu.Lock()
	p.listed = began
	p.mu.Unlock()
	by := ByPod(all)
	for _, w := range p.all() {
		w.observe(by[w.uid], began)
	}
	return all, nil
}

// ByPod sorts a listing by pods' UIDs.
func ByPod(all runtime.Listing) map[string]runtime.Listing {
	by := map[string]runtime.Listing{}
	for _, s := range all.Sandboxes {
		l := by[s.Pod.UID]
		l.Sandboxes = append(l.Sandboxes, s)
		by[s.Pod.UID] = l
	}
	for _, c := range all.Containers {
		l := by[c.Pod.UID]
		l.Containers = append(l.Containers, c)
		by[c.Pod.UID] = l
	}
	return by
}
