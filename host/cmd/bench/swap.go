package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/policies-wasm/bundle"
)

const (
	policyAPI = "/apis/policy.berth.dev/v1alpha1"
	swapNodes = 1_000
	swaps     = 10
	// kept is how many modules a host makes ready after a start, and settled how
	// long it has for that.
	kept    = 16
	settled = 3 * time.Second
	// underWay is how long clients keep a scheduler busy before swaps are measured:
	// its first cycle after a start has all guests take in the whole cluster.
	underWay    = time.Second
	swapClients = 8
	swapped     = "PodFitsResources"
	configured  = "LeastRequestedPriority"
	aimSwap     = 50 // ms
	aimRollback = 10 // ms
	maxWaitLive = 15 * time.Second
)

// measureSwaps swaps a built-in policy's module for others and back, first on
// an idle host, then while clients keep the scheduler busy: modules that were
// uploaded lately, before a start or after it, other configs of the same module,
// and modules that the host has on disk alone.
func measureSwaps(ctx context.Context, _ *options) ([]table, error) {
	t := table{Name: "swap", Title: "Swapping a policy's module or config: from the request until the Policy's status says that it is live; modules compiled before"}
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var versions []string
	stages := []func(*swapping) error{
		func(s *swapping) error {
			if err := s.prepare(s.ctx, workload{nodes: swapNodes, zones: []string{"zone-1"}, init: 1_000, initPod: plain}, 64); err != nil {
				return err
			}
			for _, clients := range []int{0, swapClients} {
				pushed, err := pushVersions(s.ctx, s.web, len(versions), swaps)
				if err != nil {
					return err
				}
				versions = append(pushed, versions...)
				if err := s.both("", clients, swapped, modulesOf(pushed)); err != nil {
					return err
				}
			}
			if err := s.both(" of the config alone", swapClients, configured, configs()); err != nil {
				return err
			}
			older, err := pushVersions(s.ctx, s.web, len(versions), kept)
			versions = append(older, versions...)
			return err
		},
		func(s *swapping) error {
			if err := pause(s.ctx, settled); err != nil {
				return err
			}
			for i, clients := range []int{0, swapClients} {
				if err := s.both(" after a start", clients, swapped, modulesOf(versions[kept-swaps:kept])); err != nil {
					return err
				}
				if err := s.both(" from disk", clients, swapped, modulesOf(versions[kept+i*swaps:][:swaps])); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for _, stage := range stages {
		if err := t.swaps(ctx, dir, stage); err != nil {
			return []table{t}, err
		}
	}
	return []table{t}, nil
}

// swapping is a host whose policies are swapped.
type swapping struct {
	*rig
	*web
	ctx   context.Context
	table *table
}

// swaps runs a host over dir for as long as do takes.
func (t *table) swaps(ctx context.Context, dir string, do func(*swapping) error) error {
	r, err := newRig(ctx, dir, slog.LevelWarn)
	if err != nil {
		return err
	}
	client, err := r.web()
	if err == nil {
		err = do(&swapping{r, client, ctx, t})
		closeWebs([]*web{client})
	}
	return errors.Join(err, r.stop())
}

// both goes to each of those specs and back again, beside so many clients.
func (s *swapping) both(what string, clients int, policy string, specs []map[string]any) error {
	load := "idle"
	if clients > 0 {
		load = "under load"
	}
	say("swap%s: %d swaps and roll-backs, %s", what, len(specs), load)
	stop := s.churn(s.ctx, clients)
	if err := pause(s.ctx, underWay); err != nil {
		return errors.Join(err, stop())
	}
	forth, back, err := swapAll(s.ctx, s.web, policy, specs)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	figure := func(name string, took times, most float64) {
		s.table.Rows = append(s.table.Rows,
			row{Name: name + what + ", " + load}.with("longest", millis(took.at(1)), "ms").with("median", millis(took.at(0.5)), "ms").most(most))
	}
	figure("swap", forth, aimSwap)
	figure("roll-back", back, aimRollback)
	return nil
}

func modulesOf(names []string) (specs []map[string]any) {
	for _, name := range names {
		specs = append(specs, map[string]any{"module": name})
	}
	return specs
}

// configs all mean the same, so that the load stays what it is.
func configs() (specs []map[string]any) {
	for i := range swaps {
		resources := []map[string]any{{"name": "cpu", "weight": 2 + i}, {"name": "memory", "weight": 2 + i}}
		specs = append(specs, map[string]any{"config": map[string]any{"resources": resources}})
	}
	return specs
}

// pushVersions uploads modules that all do what the built-in predicates do,
// each with another digest: a swap to each of them is one to a module that was
// never live.
func pushVersions(ctx context.Context, c *web, from, n int) ([]string, error) {
	wasm, err := predicates()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := from; i < from+n; i++ {
		say("swap: compiling version %d", i+1)
		m, err := c.pushModule(ctx, marked(wasm, fmt.Sprint("version ", i)))
		if err != nil {
			return nil, err
		}
		names = append(names, m.Name)
	}
	return names, nil
}

// predicates is the module of the built-in predicates.
func predicates() ([]byte, error) {
	modules, err := bundle.Modules()
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		if m.Name == "predicates" {
			return m.Wasm, nil
		}
	}
	return nil, errors.New("this binary carries no predicates: run `./task wasm` and build it again")
}

// marked is a module with a custom section more, which means nothing.
func marked(wasm []byte, mark string) []byte {
	section := append([]byte{byte(len("mark"))}, "mark"+mark...)
	return append(append(bytes.Clone(wasm), 0, byte(len(section))), section...)
}

// pushModule uploads a module as kubectl would.
func (c *web) pushModule(ctx context.Context, wasm []byte) (*v1alpha1.Module, error) {
	m := &v1alpha1.Module{TypeMeta: metav1.TypeMeta{APIVersion: "policy.berth.dev/v1alpha1", Kind: "Module"}}
	m.GenerateName, m.Spec.Wasm = "bench-", wasm
	made := new(v1alpha1.Module)
	return made, c.doJSON(ctx, http.MethodPost, policyAPI+"/modules", asJSON, m, made)
}

// swapAll goes to each of those specs and back again.
func swapAll(ctx context.Context, c *web, policy string, specs []map[string]any) (forth, back times, err error) {
	var now v1alpha1.PolicyList
	if err := c.doJSON(ctx, http.MethodGet, policyAPI+"/policies?"+only(policy), "", nil, &now); err != nil {
		return nil, nil, err
	}
	if len(now.Items) != 1 {
		return nil, nil, fmt.Errorf("there is no policy %s", policy)
	}
	was := now.Items[0].Spec
	original := map[string]any{"module": was.Module, "config": was.Config}
	live, stop, err := c.followPolicy(ctx, policy, now.ResourceVersion)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	for _, spec := range specs {
		for _, step := range []struct {
			spec map[string]any
			took *times
		}{{spec, &forth}, {original, &back}} {
			took, err := c.swapTo(ctx, policy, step.spec, live)
			if err != nil {
				return forth, back, err
			}
			*step.took = append(*step.took, took)
		}
	}
	return forth, back, nil
}

func (c *web) swapTo(ctx context.Context, policy string, spec map[string]any, live <-chan v1alpha1.Policy) (time.Duration, error) {
	began := time.Now()
	var patched v1alpha1.Policy
	if err := c.doJSON(ctx, http.MethodPatch, policyAPI+"/policies/"+policy, asMerge, map[string]any{"spec": spec}, &patched); err != nil {
		return 0, err
	}
	want := "sha256:" + patched.Spec.Module[len("sha256-"):]
	last := "as it was"
	timeout := time.NewTimer(maxWaitLive)
	defer timeout.Stop()
	for {
		select {
		case p, ok := <-live:
			if !ok {
				return 0, errors.New("the watch of policies ended")
			}
			if p.Status.ObservedGeneration < patched.Generation {
				continue
			}
			if p.Status.Live == want && p.Status.Phase == "Live" {
				return time.Since(began), nil
			}
			last = p.Status.Phase + " " + p.Status.Live + " " + p.Status.Message
		case <-timeout.C:
			return 0, fmt.Errorf("policy %s is not live with %v after %v; it is %s", policy, spec, maxWaitLive, last)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func only(policy string) string { return "fieldSelector=metadata.name%3D" + policy }

// followPolicy watches the policy that is swapped.
func (c *web) followPolicy(ctx context.Context, policy, from string) (<-chan v1alpha1.Policy, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	path := policyAPI + "/policies?watch=1&" + only(policy) + "&resourceVersion=" + from
	body, err := c.open(ctx, http.MethodGet, path, "", asJSON, nil)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	seen := make(chan v1alpha1.Policy, 64)
	go func() {
		defer close(seen)
		for d := json.NewDecoder(body); ; {
			var ev struct{ Object v1alpha1.Policy }
			if err := d.Decode(&ev); err != nil {
				return
			}
			select {
			case seen <- ev.Object:
			case <-ctx.Done():
				return
			}
		}
	}()
	return seen, func() { cancel(); _ = body.Close() }, nil
}

// churn has clients create and delete pods as fast as they can, until stop.
func (r *rig) churn(ctx context.Context, clients int) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	failed := make(chan error, clients)
	var group sync.WaitGroup
	pods := r.client.CoreV1().Pods(second)
	now := int64(0)
	for range clients {
		group.Go(func() {
			for ctx.Err() == nil {
				p, err := pods.Create(ctx, plain(), metav1.CreateOptions{})
				if err == nil {
					err = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
				}
				if err != nil && ctx.Err() == nil {
					failed <- err
					return
				}
			}
		})
	}
	return func() error {
		cancel()
		group.Wait()
		close(failed)
		return <-failed
	}
}
