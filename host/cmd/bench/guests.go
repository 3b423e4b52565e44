package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/builtin"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/store"
)

// openGuests loads the built-in policies over a store in memory, compiled into
// dir. Where memory is not 0, it is what each guest may have.
func openGuests(ctx context.Context, dir string, memory int64) (*policy.Loader, func() error, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	e, err := engine.New(ctx, engine.Config{CacheDir: filepath.Join(dir, "compiled"), Log: log})
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Open(ctx, store.NewMemory(), kind.Codec{}, store.Options{Logger: log})
	if err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	l := policy.NewLoader(policy.Config{Objects: s, Engine: e, Reasons: schedule.NewReasons(0), Now: time.Now, Log: log})
	closeAll := func() error { return errors.Join(l.Close(), s.Close(), e.Close()) }
	if err := builtin.Install(ctx, l); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	if err := limitMemory(ctx, s, memory); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	l.Load(ctx)
	return l, closeAll, nil
}

func limitMemory(ctx context.Context, s *store.Store, memory int64) error {
	if memory == 0 {
		return nil
	}
	list, err := s.List(policy.Policies, "", store.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		_, err := s.Update(ctx, store.Key{Resource: policy.Policies, Name: o.GetName()}, func(o store.Object) (store.Object, error) {
			p := o.(*v1alpha1.Policy).DeepCopy()
			p.Spec.Limits = &v1alpha1.PolicyLimits{MemoryBytes: memory}
			return p, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
