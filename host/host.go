package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-dev/berth/host/api/admission"
	"github.com/berth-dev/berth/host/api/aggregate"
	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/api/connlimit"
	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/serviceip"
	"github.com/berth-dev/berth/host/api/socket"
	"github.com/berth-dev/berth/host/auth"
	"github.com/berth-dev/berth/host/auth/view"
	questions "github.com/berth-dev/berth/host/controller/record"
	"github.com/berth-dev/berth/host/event"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/network"
	"github.com/berth-dev/berth/host/network/balancer"
	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/builtin"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/binding"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
	"github.com/berth-dev/berth/host/usage"
)

// Host is a host under construction; Run makes one, and nothing outlives Run.
//
// It is large because it is the one place where parts are put together: each
// method opens, starts or stops one of them.
type Host struct {
	Config
	store       *store.Store
	auth        *auth.Auth
	chain       *admission.Chain
	engine      *engine.Engine
	loader      *policy.Loader
	events      *event.Writer
	registry    *registry.Registry
	scheduler   *schedule.Scheduler
	recorders   *recorders // nil unless asked for
	questions   *questions.Log
	berth       *berthapi.API
	connections *connlimit.Listener
	usage       *usage.Meter
	aggregate   *aggregate.Aggregator
	adapters    adapters
	podRange    netip.Prefix
	services    []netip.Prefix
	balancers   balancer.Config
	network     *network.Network
	histograms  *histograms
	driven      atomic.Pointer[[]explain.Driven]
}

// Run runs a host until ctx ends. It calls serving once, when the API answers
// and pods can be scheduled.
func Run(ctx context.Context, cfg Config, serving func(Serving)) (err error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Compiled == "" {
		cfg.Compiled = filepath.Join(cfg.DataDir, "compiled")
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	// Listening comes first: a second host on this address must not touch anything.
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen for the API: %w (is another host running? choose another address by --listen)", err)
	}
	defer listener.Close()
	release, err := keepPort(ctx, listener)
	if err != nil {
		return err
	}
	defer release()
	defer tuneGC()()
	tuneGOMAXPROCS()
	h := &Host{Config: cfg, histograms: newHistograms()}
	if cfg.PodCIDR != "" {
		if h.podRange, err = netip.ParsePrefix(cfg.PodCIDR); err != nil {
			return fmt.Errorf("pod range: %w", err)
		}
	}
	if h.services, err = serviceRanges(cfg.ServiceCIDR); err != nil {
		return err
	}
	if h.balancers, err = h.loadBalancers(listener.Addr().(*net.TCPAddr).AddrPort()); err != nil {
		return err
	}
	close, err := h.open(ctx)
	defer func() { err = errors.Join(err, close()) }()
	if err != nil {
		return err
	}
	return h.serve(ctx, listener, serving)
}

// open makes all parts, none of which runs yet. close is never nil.
func (h *Host) open(ctx context.Context) (close func() error, err error) {
	var closers []io.Closer
	close = func() error {
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i].Close())
		}
		return errors.Join(errs...)
	}
	at := filepath.Join(h.DataDir, "store")
	disk, err := badger.Open(at, h.Log)
	if err != nil {
		return close, err
	}
	if h.store, err = store.Open(ctx, disk, kind.Codec{}, store.Options{Indexes: indexes(), History: h.History, Packed: packed, Logger: h.Log}); errors.Is(err, store.ErrHalfRestored) {
		return close, fmt.Errorf("%w: remove %s, and nothing else, and restore again", err, at)
	}
	if err != nil {
		return close, err // the store has closed the disk
	}
	closers = append(closers, h.store)
	h.auth, err = auth.Open(ctx, auth.Config{
		Dir: h.DataDir, Objects: view.Of(h.store), Log: h.Log, Now: h.Now,
	})
	if err != nil {
		return close, err
	}
	h.events = event.NewWriter(h.store, kindOf, h.Now, h.Log)
	if h.engine, err = engine.New(ctx, engine.Config{CacheDir: h.Compiled, GuestMemory: h.guestMemory(), Log: h.Log}); err != nil {
		return close, err
	}
	closers = append(closers, h.engine)
	if err := h.openPolicies(ctx); err != nil {
		return close, err
	}
	closers = append(closers, h.loader)
	if err := h.openScheduler(); err != nil {
		return close, err
	}
	h.berth = berthapi.New(berthapi.Config{
		Store: h.store, Policies: h.loader, Scheduler: h.scheduler, Replay: h.replayed, NewToken: h.auth.NewToken, Log: h.Log,
		Drivers: h.drivers, May: h.auth.Access, ReconcileAgain: h.askedAgain,
	})
	h.chain = h.admission()
	h.registry = registry.New(registry.Config{
		Store: h.store, Admission: registry.Admissions{h.chain, serviceip.New(h.store, serviceip.Ranges{Services: h.services}), h.berth.Warnings()}, Tokens: h.auth, Claim: h.claim, Log: h.Log,
		BeforeCreate: map[string]func(context.Context, *registry.Request, store.Object) error{v1alpha1.Modules: h.berth.BeforeCreate},
	})
	h.network = network.New(network.Config{
		Registry: h.registry, Services: h.services, Ingress: h.Ingress, Balancers: h.balancers,
		Event: h.events.For("service-controller").Event, Log: h.Log,
	})
	return close, nil
}

// serviceRanges reads the ranges of services' addresses.
func serviceRanges(text string) ([]netip.Prefix, error) {
	if text == "" {
		return serviceip.Defaults.Services, nil
	}
	var ranges []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		r, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("service range: %w", err)
		}
		ranges = append(ranges, r)
	}
	if err := serviceip.Check(ranges); err != nil {
		return nil, fmt.Errorf("service range: %w", err)
	}
	return ranges, nil
}

func (h *Host) openPolicies(ctx context.Context) error {
	trusted, err := module.ReadKeyring(h.TrustedKeys)
	if err != nil {
		return err
	}
	h.loader = policy.NewLoader(policy.Config{
		Objects: h.store, Engine: h.engine, Reasons: framework.NewReasons(0), Now: h.Now, Log: h.Log,
		Trusted: trusted, Event: h.events.For("berth-policies").Event, Present: h.present, Archive: h.archived, Drives: h.drives,
	})
	if err := builtin.Install(ctx, h.loader); err != nil {
		return err
	}
	h.loader.Load(ctx)
	return nil
}

// present is the scheduler's state, for guests that are not live yet.
func (h *Host) present(ctx context.Context) (snapshot.Log, error) {
	if h.scheduler == nil {
		return nil, schedule.ErrNotRunning
	}
	view, _, err := h.scheduler.Now(ctx)
	if err != nil {
		return nil, err
	}
	return view, nil
}

func (h *Host) openScheduler() (err error) {
	if err := h.openRecord(); err != nil {
		return err
	}
	config := schedule.Config{
		Source: binding.NewSource(h.store), Set: h.loader.Scheduling, Swapped: h.loader.Swapped(), Binder: binding.NewWriter(h.store, h.Now),
		Recorder: podRecorder{h.events.For("default-scheduler")}, Reasons: h.loader.Reasons, Logger: h.Log,
		Rest: h.loader.Rest, Clock: h.Now, LogBytes: h.LogBytes, Decided: h.histograms.decided, Seed: uint64(h.Now().UnixNano()),
		OnDivergence: func(d schedule.Divergence) { h.Log.Warn("a policy does not repeat its answers", "difference", d) },
	}
	// Each decision makes writes: numbers of previous runs are not given again.
	config.FirstDecision = uint64(h.store.Revision())
	if h.recorders != nil {
		decisions := h.recorders.decisions
		config.FirstDecision = max(config.FirstDecision, decisions.Next) // runs between may not have been recorded
		config.Record, decisions.Next = decisions.Record, config.FirstDecision
	}
	h.scheduler, err = schedule.New(config)
	return err
}

// serve runs all parts until ctx ends or one of them fails.
func (h *Host) serve(ctx context.Context, listener net.Listener, serving func(Serving)) error {
	descriptors, err := connlimit.Descriptors()
	if err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	all := newListeners(listener)
	h.connections = connlimit.New(all, connlimit.LimitsFor(descriptors))
	handler, closeStreams, err := h.handler()
	if err != nil {
		return err
	}
	defer closeStreams()
	at := all.Addr().(*net.TCPAddr).AddrPort()
	leaf, err := h.auth.Authority.Serve(h.names(at))
	if err != nil {
		return err
	}
	server := &http.Server{
		ConnState: h.connections.ConnState,
		Handler:   handler, TLSConfig: leaf.TLS(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 3 * time.Minute,
		ErrorLog: log.New(quiet{h.Log}, "", 0),
	}
	group, ctx := errgroup.WithContext(ctx)
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	group.Go(func() error {
		if err := server.ServeTLS(socket.Listener{Listener: h.connections}, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			return server.Close()
		}
		return nil
	})
	for _, part := range h.parts() {
		group.Go(func() error {
			if err := part.run(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
			return nil
		})
	}
	if tunes(memoryIn(os.DirFS("/"))) {
		group.Go(func() error { rest(ctx); return nil })
	}
	group.Go(func() error { return h.announce(ctx, all, serving) })
	return group.Wait()
}

// announce writes the administrator's kubeconfig and tells that all is ready.
func (h *Host) announce(ctx context.Context, all *listeners, serving func(Serving)) error {
	own := all.Addr().(*net.TCPAddr).AddrPort()
	url := "https://" + local(own).String()
	kubeconfig := filepath.Join(h.DataDir, "kubeconfig")
	if err := h.auth.Authority.AdminKubeconfig(kubeconfig, url); err != nil {
		return err
	}
	at := h.reached(own)
	h.network.Serve(at...)
	serving(Serving{
		URL: url, Kubeconfig: kubeconfig,
		NewToken: func() (string, error) { return h.auth.NewToken(ctx, time.Hour, "made by berth up") },
		Reach: func(address netip.Addr) error {
			if len(at) > 0 {
				return nil
			}
			further := netip.AddrPortFrom(address, own.Port())
			if err := all.add(further); err != nil {
				return err
			}
			h.network.Serve(further)
			return nil
		},
	})
	return nil
}

// names are what clients may call an API by that listens at own.
func (h *Host) names(own netip.AddrPort) []string {
	names := append([]string(nil), h.Advertise...)
	for _, at := range append(h.reached(own), local(own)) {
		names = append(names, at.Addr().Unmap().String())
	}
	for _, r := range h.services {
		names = append(names, serviceip.Nth(r, 1).String()) // the Service default/kubernetes
	}
	if address, _, err := net.SplitHostPort(h.Listen); err == nil && address != "" {
		names = append(names, address)
	}
	if own, err := os.Hostname(); err == nil {
		names = append(names, own)
	}
	return names
}

// quiet logs what net/http complains about, most of it clients that left.
type quiet struct{ log *slog.Logger }

func (q quiet) Write(p []byte) (int, error) {
	q.log.Debug("http", "message", string(p))
	return len(p), nil
}
