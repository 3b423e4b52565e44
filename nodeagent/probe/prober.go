package probe

import (
	"container/heap"
	"context"
	"hash/fnv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// Target is a running container with probes.
type Target struct {
	Pod       *v1.Pod
	Container *v1.Container
	// ID of this run, and the pod's address.
	ID, IP    string
	StartedAt time.Time
	// Started and Ready are where it stands, so that a restart of the agent
	// does not take it back.
	Started, Ready bool
	// Ending: its pod ends. Only whether it is ready is asked then.
	Ending bool
}

// Standing is the sum of a container's probes.
type Standing struct {
	Started, Ready bool
	Unhealthy      string
}

// Tell takes the standing of a container's run whenever it changes.
type Tell func(container, id string, s Standing)

// Prober asks all probes of the machine.
type Prober struct {
	run      Execer
	recorder record.EventRecorder
	wake     chan struct{}

	mu   sync.Mutex
	due  queue
	pods map[string]map[string]*subject // by UID and container
	wg   sync.WaitGroup
}

// subject is one container under observation; guarded by Prober.mu.
type subject struct {
	Target
	tell     Tell
	standing Standing
	judges   map[Kind]*judge
	gone     bool
}

// New gives a prober; Run makes it work.
func New(run Execer, recorder record.EventRecorder) *Prober {
	return &Prober{run: run, recorder: recorder, wake: make(chan struct{}, 1), pods: map[string]map[string]*subject{}}
}

// Set says which containers of a pod are to be probed; a container that runs
// on with the same ID keeps its counts.
func (p *Prober) Set(uid string, targets []Target, tell Tell) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.pods[uid]
	if len(targets) == 0 && old == nil {
		return
	}
	next := map[string]*subject{}
	for _, t := range targets {
		if s := old[t.Container.Name]; s != nil && s.ID == t.ID {
			s.Pod, s.Container, s.IP, s.Ending = t.Pod, t.Container, t.IP, t.Ending
			next[t.Container.Name] = s
			continue
		}
		next[t.Container.Name] = p.add(t, tell)
	}
	for name, s := range old {
		if next[name] != s {
			s.gone = true
		}
	}
	p.pods[uid] = next
	if len(next) == 0 {
		delete(p.pods, uid)
	}
	p.kick()
}

// Drop ends all probing of a pod.
func (p *Prober) Drop(uid string) { p.Set(uid, nil, nil) }

func (p *Prober) kick() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// add begins to observe a container; p.mu is held.
func (p *Prober) add(t Target, tell Tell) *subject {
	s := &subject{Target: t, tell: tell, judges: map[Kind]*judge{}, standing: Standing{
		Started: t.Started || t.Container.StartupProbe == nil,
		Ready:   t.Ready || t.Container.ReadinessProbe == nil,
	}}
	now := time.Now()
	for kind, spec := range map[Kind]*v1.Probe{
		Startup: t.Container.StartupProbe, Readiness: t.Container.ReadinessProbe, Liveness: t.Container.LivenessProbe,
	} {
		if spec == nil || kind == Startup && t.Started {
			continue
		}
		j := newJudge(kind, spec, kind == Liveness || kind == Readiness && t.Ready)
		s.judges[kind] = j
		at := t.StartedAt.Add(time.Duration(spec.InitialDelaySeconds) * time.Second)
		if at.Before(now.Add(-j.period())) { // adopted: spread over one period
			at = now.Add(spread(t.ID, j.period()))
		}
		heap.Push(&p.due, &turn{at: at, subject: s, judge: j})
	}
	return s
}

func spread(id string, period time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(id))
	return time.Duration(h.Sum32()) % period
}

// Run asks what is due until ctx ends and all that was asked has ended.
func (p *Prober) Run(ctx context.Context) error {
	defer p.wg.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(p.fire(ctx))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// fire starts all probes that are due and says how long to wait for the next.
func (p *Prober) fire(ctx context.Context) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.due) > 0 {
		t := p.due[0]
		if t.over() {
			heap.Pop(&p.due)
			continue
		}
		if wait := time.Until(t.at); wait > 0 {
			return max(wait, minWait)
		}
		heap.Pop(&p.due)
		if t.judge.kind != Startup && !t.subject.standing.Started {
			// Nothing else is asked before the startup probe has passed.
			t.at = time.Now().Add(min(t.judge.period(), time.Second))
			heap.Push(&p.due, t)
			continue
		}
		target, spec := t.subject.Target, t.judge.spec
		p.wg.Go(func() {
			asking, cancel := context.WithTimeout(ctx, t.judge.timeout())
			a := ask(asking, p.run, target, &spec)
			cancel()
			if ctx.Err() == nil {
				p.heard(t, a)
			}
		})
	}
	return time.Hour
}

// heard takes an answer in and plans the next turn.
func (p *Prober) heard(t *turn, a Answer) {
	p.mu.Lock()
	s := t.subject
	if t.over() {
		p.mu.Unlock()
		return
	}
	before := s.standing
	if a.Err == nil && t.judge.hear(a.OK) {
		s.apply(t.judge)
	}
	t.at = t.at.Add(t.judge.period())
	if now := time.Now(); t.at.Before(now) {
		t.at = now.Add(t.judge.period())
	}
	if over := t.judge.kind == Startup && s.standing.Started; !over && s.standing.Unhealthy == "" {
		heap.Push(&p.due, t)
	}
	after, tell, target := s.standing, s.tell, s.Target
	p.mu.Unlock()
	p.kick()
	switch {
	case a.Err != nil:
		p.recorder.Eventf(target.Pod, v1.EventTypeWarning, "Unhealthy", "%s probe errored and resulted in unknown state: %v", t.judge.kind, a.Err)
	case !a.OK:
		p.recorder.Eventf(target.Pod, v1.EventTypeWarning, "Unhealthy", "%s probe failed: %s", t.judge.kind, a.Output)
	}
	if after != before {
		tell(target.Container.Name, target.ID, after)
	}
}

// apply brings a judge's decision into the standing.
func (s *subject) apply(j *judge) {
	switch j.kind {
	case Startup:
		s.standing.Started = s.standing.Started || j.standing
		if !j.standing {
			s.standing.Unhealthy = j.unhealthy(s.Container.Name)
		}
	case Readiness:
		s.standing.Ready = j.standing
	case Liveness:
		if !j.standing {
			s.standing.Unhealthy = j.unhealthy(s.Container.Name)
		}
	}
}

// turn is one probe's place in the queue.
type turn struct {
	at      time.Time
	subject *subject
	judge   *judge
}

// over says that nobody wants to know any more; Prober.mu is held.
func (t *turn) over() bool {
	return t.subject.gone || t.subject.Ending && t.judge.kind != Readiness
}

type queue []*turn

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*turn)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
