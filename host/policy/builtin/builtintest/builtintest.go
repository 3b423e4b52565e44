// Package builtintest opens the built-in policies as a host does, for tests
// that want the real guests behind the real loader: bundles that the binary
// carries, Policy and Profile objects in a store in memory, sandboxes with the
// fuel that a host gives them.
package builtintest

import (
	"log/slog"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/builtin"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func init() {
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
}

// Host is the part of a host that policies live in.
type Host struct {
	*policy.Loader
	Store *store.Store
}

// Open starts one with the built-in policies and profiles, all live.
func Open(t testing.TB) *Host {
	t.Helper()
	e, err := engine.New(t.Context(), engine.Config{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{Store: storetest.Open(t)}
	h.Loader = policy.NewLoader(policy.Config{
		Objects: h.Store, Engine: e, Reasons: framework.NewReasons(0), Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
	if err := builtin.Install(t.Context(), h.Loader); err != nil {
		t.Fatal(err)
	}
	h.Load(t.Context())
	return h
}

// Open opens a profile's policies in sandboxes of their own, which follow one
// cluster, until release.
func (h *Host) Open(t testing.TB, schedulerName string) (p *framework.Profile, release func()) {
	t.Helper()
	set, release, err := h.Scheduling().Reopen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p = set.Profiles[schedulerName]; p == nil {
		t.Fatalf("no profile decides for schedulerName %s", schedulerName)
	}
	return p, release
}
