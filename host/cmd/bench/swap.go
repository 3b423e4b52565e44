package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/policies-wasm/bundle"
)

const (
	policyAPI    = "/apis/policy.berth.dev/v1alpha1"
	swapNodes    = 1_000
	swaps        = 10
	swapClients  = 8
	swapped      = "PodFitsResources"
	aimSwap      = 50 // ms
	aimRollback  = 10 // ms
	mostWaitLive = 15 * time.Second
)

// measureSwaps swaps a built-in policy's module for others and back, first on
// an idle host, then while clients keep the scheduler busy.
func measureSwaps(ctx context.Context, _ *options) ([]table, error) {
	t := table{Name: "swap", Title: "Swapping a policy's module: from the request until the Policy's status says that the new one is live; modules compiled before"}
	err := onRig(ctx, func(r *rig) error {
		if err := r.prepare(ctx, workload{nodes: swapNodes, zones: []string{"zone-1"}, init: 1_000, initPod: plain}, 64); err != nil {
			return err
		}
		client, err := r.web()
		if err != nil {
			return err
		}
		defer closeWebs([]*web{client})
		versions, err := pushVersions(ctx, client, 2*swaps)
		if err != nil {
			return err
		}
		for _, load := range []struct {
			name    string
			clients int
		}{{"idle", 0}, {"under load", swapClients}} {
			say("swap: %d swaps and roll-backs, %s", swaps, load.name)
			stop := r.churn(ctx, load.clients)
			forth, back, err := swapAll(ctx, client, versions[:swaps])
			versions = versions[swaps:]
			if err := errors.Join(err, stop()); err != nil {
				return err
			}
			t.Rows = append(t.Rows,
				row{Name: "swap, " + load.name}.with("longest", millis(forth.at(1)), "ms").with("median", millis(forth.at(0.5)), "ms").most(aimSwap),
				row{Name: "roll-back, " + load.name}.with("longest", millis(back.at(1)), "ms").with("median", millis(back.at(0.5)), "ms").most(aimRollback))
		}
		return nil
	})
	return []table{t}, err
}

// pushVersions uploads modules that all do what the built-in predicates do,
// each with another digest: a swap to each of them is one to a module that was
// never live.
func pushVersions(ctx context.Context, c *web, n int) ([]string, error) {
	modules, err := bundle.Modules()
	if err != nil {
		return nil, err
	}
	var wasm []byte
	for _, m := range modules {
		if m.Name == "predicates" {
			wasm = m.Wasm
		}
	}
	if wasm == nil {
		return nil, errors.New("this binary carries no predicates: run `./task wasm` and build it again")
	}
	var names []string
	for i := range n {
		say("swap: compiling version %d of %d", i+1, n)
		m, err := c.pushModule(ctx, marked(wasm, fmt.Sprint("version ", i)))
		if err != nil {
			return nil, err
		}
		names = append(names, m.Name)
	}
	return names, nil
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

// swapAll goes to each version and back again.
func swapAll(ctx context.Context, c *web, versions []string) (forth, back times, err error) {
	var now v1alpha1.Policy
	if err := c.doJSON(ctx, http.MethodGet, policyAPI+"/policies/"+swapped, "", nil, &now); err != nil {
		return nil, nil, err
	}
	original := now.Spec.Module
	live, stop, err := c.followPolicy(ctx, now.ResourceVersion)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	for _, version := range versions {
		for _, step := range []struct {
			module string
			took   *times
		}{{version, &forth}, {original, &back}} {
			took, err := c.swapTo(ctx, step.module, live)
			if err != nil {
				return forth, back, err
			}
			*step.took = append(*step.took, took)
		}
	}
	return forth, back, nil
}

func (c *web) swapTo(ctx context.Context, module string, live <-chan v1alpha1.Policy) (time.Duration, error) {
	began := time.Now()
	patch := map[string]any{"spec": map[string]any{"module": module}}
	var patched v1alpha1.Policy
	if err := c.doJSON(ctx, http.MethodPatch, policyAPI+"/policies/"+swapped, asMerge, patch, &patched); err != nil {
		return 0, err
	}
	want := "sha256:" + module[len("sha256-"):]
	last := "as it was"
	patience := time.NewTimer(mostWaitLive)
	defer patience.Stop()
	for {
		select {
		case p, ok := <-live:
			if !ok {
				return 0, errors.New("the watch of policies ended")
			}
			if p.Status.ObservedGeneration < patched.Generation {
				continue
			}
			if p.Status.Live == want {
				return time.Since(began), nil
			}
			last = p.Status.Phase + " " + p.Status.Live + " " + p.Status.Message
		case <-patience.C:
			return 0, fmt.Errorf("module %s is not live after %v; the policy is %s", module, mostWaitLive, last)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// followPolicy watches the policy that is swapped.
func (c *web) followPolicy(ctx context.Context, from string) (<-chan v1alpha1.Policy, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	path := policyAPI + "/policies?watch=1&fieldSelector=metadata.name%3D" + swapped + "&resourceVersion=" + from
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
