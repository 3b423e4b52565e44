package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

const (
	hostileName = "hostile" // of the profile, the policy and the schedulerName
	hostileFor  = 60 * time.Second
	idleFor     = 8 * time.Second
	// runFor is how long a hostile policy decides before the next one comes.
	runFor = 150 * time.Millisecond
	// shortHistory is how long this host's watches can go back. What the API keeps
	// of the objects that were is no module's.
	shortHistory = 5 * time.Second

	aimLatency = 2  // times the idle one
	aimGC      = 20 // ms
	aimGrown   = 10 // %
)

// measureHostile pushes the corpus of hostile modules to a host and lets those
// that it accepts decide about pods, while a client asks the API at a steady
// pace and the garbage is collected again and again.
func measureHostile(ctx context.Context, o *options) ([]table, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	corpus, err := writeCorpus(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	// Each failure is logged, which is not what is measured.
	r, err := newRig(ctx, filepath.Join(dir, "host"), slog.LevelError+4, func(c *host.Config) { c.History = shortHistory })
	if err != nil {
		return nil, err
	}
	t, err := r.hostile(ctx, corpus)
	return []table{t}, errors.Join(err, r.stop())
}

func writeCorpus(ctx context.Context, o *options, dir string) ([]string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(o.tools, "engine.test"), "-test.run=^TestTheCorpusCanBeWritten$", "-corpus.out="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s (which `./task bench` builds): %w: %s", cmd.Path, err, out)
	}
	return filepath.Glob(filepath.Join(dir, "*.wasm"))
}

func (r *rig) hostile(ctx context.Context, corpus []string) (t table, err error) {
	t = table{Name: "hostile", Title: "A host into which hostile modules are pushed, and which runs those that it accepts"}
	if err := r.prepare(ctx, workload{nodes: 1_000, zones: []string{"zone-1"}, init: 1_000, initPod: plain}, 64); err != nil {
		return t, err
	}
	client, err := r.web()
	if err != nil {
		return t, err
	}
	defer closeWebs([]*web{client})
	if err := client.hostileProfile(ctx); err != nil {
		return t, err
	}
	if err := r.settle(ctx); err != nil {
		return t, err
	}
	before := held()
	say("hostile: the API of an idle host")
	idle, err := r.observe(ctx, func(ctx context.Context) error { return pause(ctx, idleFor) })
	if err != nil {
		return t, err
	}
	say("hostile: %d modules, for a minute at most", len(corpus))
	var pushed pushing
	stopped := stops()
	busy, err := r.observe(ctx, func(ctx context.Context) error { return pushed.all(ctx, r, client, corpus) })
	if err != nil {
		return t, err
	}
	stopped = stops().since(stopped)
	loaded := held()
	if err := r.settle(ctx); err != nil {
		return t, err
	}
	after := held()
	t.Rows = []row{
		one("modules pushed", float64(pushed.refused+pushed.ran), ""),
		one("refused at the door", float64(pushed.refused), ""),
		one("accepted, and asked about pods", float64(pushed.ran), ""),
		one("API, p99, idle", millis(idle.asked.at(0.99)), "ms"),
		one("API, p99, meanwhile", millis(busy.asked.at(0.99)), "ms"),
		one("API, p99, meanwhile to idle", ratio(busy.asked.at(0.99), idle.asked.at(0.99)), "×").most(aimLatency),
		one("runtime.GC(), median, idle", millis(idle.collected.at(0.5)), "ms"),
		one("runtime.GC(), longest, idle", millis(idle.collected.at(1)), "ms"),
		one("runtime.GC(), median, meanwhile", millis(busy.collected.at(0.5)), "ms"),
		one("runtime.GC(), longest, meanwhile", millis(busy.collected.at(1)), "ms").most(aimGC),
		one("the world stopped for the collector, p99, meanwhile", 1000*stopped.at(0.99), "ms"),
		one("the world stopped for the collector, longest, meanwhile", 1000*stopped.at(1), "ms"),
		one("live heap at the end, with what the API keeps of it", grown(before.heap, loaded.heap), "%"),
		one("live heap after to before", grown(before.heap, after.heap), "%").most(aimGrown),
		one("guests' memory after to before", grown(before.guests, after.guests), "%").most(aimGrown),
		one("resident memory after to before", grown(before.resident, after.resident), "%"),
	}
	return t, nil
}

// settle takes away what the measurement made through the API, and waits until
// the API's history of it has passed and retired programs have ended.
func (r *rig) settle(ctx context.Context) error {
	if err := r.client.CoreV1().ConfigMaps(first).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	return pause(ctx, shortHistory*6/5)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ratio(a, b time.Duration) float64    { return float64(a) / float64(b) }
func grown(before, after float64) float64 { return 100 * (after/before - 1) }

// holding is what a process holds, in bytes.
type holding struct{ heap, guests, resident float64 }

func held() holding {
	debug.FreeOSMemory()
	h := holding{heap: float64(liveHeap()), guests: float64(engine.GuestBytes()), resident: unknown}
	if data, err := os.ReadFile("/proc/self/status"); err == nil {
		h.resident = statusKiB(string(data), "VmRSS:") * 1024
	}
	return h
}

// observed is how long the API and the collector took.
type observed struct{ asked, collected times }

// observe asks the API a hundred times a second and collects garbage five times
// a second, while something goes on.
func (r *rig) observe(ctx context.Context, while func(context.Context) error) (o observed, err error) {
	done := make(chan struct{})
	var collecting sync.WaitGroup
	collecting.Go(func() {
		o.collected, _ = paced(done, 200*time.Millisecond, func() error { runtime.GC(); return nil })
	})
	o.asked, err = r.ask(ctx, while)
	close(done)
	collecting.Wait()
	return o, err
}

// ask asks the API a hundred times a second while something goes on: every other
// request reads a Node, the others create a ConfigMap.
func (r *rig) ask(ctx context.Context, while func(context.Context) error) (took times, err error) {
	client, err := r.web()
	if err != nil {
		return nil, err
	}
	defer closeWebs([]*web{client})
	body, err := inProtobuf(small(first))
	if err != nil {
		return nil, err
	}
	done, asked := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		n := 0
		took, err = paced(done, 10*time.Millisecond, func() error {
			if n++; n%2 == 0 {
				_, err := client.do(ctx, http.MethodPost, configMaps, asProtobuf, asProtobuf, body)
				return err
			}
			_, err := client.do(ctx, http.MethodGet, "/api/v1/nodes/node-00001", "", asProtobuf, nil)
			return err
		})
		asked <- err
	}()
	err = while(ctx)
	close(done)
	return took, errors.Join(err, <-asked)
}

// paced does something at a steady pace until done. What comes late because
// the one before took long counts from when it was due.
func paced(done <-chan struct{}, every time.Duration, do func() error) (took times, err error) {
	for due := time.Now(); ; due = due.Add(every) {
		select {
		case <-done:
			return took, nil
		case <-time.After(time.Until(due)):
		}
		if err := do(); err != nil {
			return took, err
		}
		took = append(took, time.Since(due))
	}
}

// hostileProfile makes the profile whose one predicate is hostile.
func (c *web) hostileProfile(ctx context.Context) error {
	p := &v1alpha1.Profile{TypeMeta: metav1.TypeMeta{APIVersion: "policy.berth.dev/v1alpha1", Kind: "Profile"}}
	p.Name = hostileName
	p.Spec.Predicates = []v1alpha1.ProfilePredicate{{Name: hostileName}}
	return c.doJSON(ctx, http.MethodPost, policyAPI+"/profiles", asJSON, p, nil)
}

// pushing counts what became of the modules.
type pushing struct{ refused, ran int }

// all pushes one module after the other, until the time is over.
func (p *pushing) all(ctx context.Context, r *rig, c *web, corpus []string) error {
	began := time.Now()
	for i, file := range corpus {
		if time.Since(began) > hostileFor {
			say("hostile: the time is over after %d modules", i)
			return nil
		}
		wasm, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := p.push(ctx, r, c, wasm); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

// push uploads a module and, if it is accepted, has it asked about pods.
func (p *pushing) push(ctx context.Context, r *rig, c *web, wasm []byte) error {
	m, err := c.pushModule(ctx, wasm)
	var no *refused
	if errors.As(err, &no) && no.status < http.StatusInternalServerError {
		p.refused++
		return nil
	}
	if err != nil {
		return err
	}
	o := &v1alpha1.Policy{TypeMeta: metav1.TypeMeta{APIVersion: "policy.berth.dev/v1alpha1", Kind: "Policy"}}
	o.Name, o.Spec.Module = hostileName, v1alpha1.ModuleName(m.Spec.Digest)
	if len(m.Status.Entries) > 0 {
		o.Spec.Entry = m.Status.Entries[0].Name
	}
	if err := c.doJSON(ctx, http.MethodPost, policyAPI+"/policies", asJSON, o, nil); err != nil {
		return err
	}
	p.ran++
	if err := r.decideBy(ctx); err != nil {
		return err
	}
	return c.doJSON(ctx, http.MethodDelete, policyAPI+"/policies/"+hostileName, "", nil, nil)
}

// decideBy creates pods about which the hostile policy decides, and takes them
// away after a while.
func (r *rig) decideBy(ctx context.Context) error {
	pods, now := r.client.CoreV1().Pods(second), int64(0)
	var names []string
	for range 5 {
		p := plain()
		p.Spec.SchedulerName = hostileName
		made, err := pods.Create(ctx, p, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		names = append(names, made.Name)
	}
	errs := []error{pause(ctx, runFor)}
	for _, name := range slices.Backward(names) {
		errs = append(errs, pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	}
	return errors.Join(errs...)
}
