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
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/store"
)

// openGuests loads the built-in policies over a store in memory, compiled into
// dir.
func openGuests(ctx context.Context, dir string) (*policy.Loader, func() error, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	e, err := engine.New(ctx, engine.Config{CacheDir: filepath.Join(dir, "compiled"), Log: log})
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Open(ctx, store.NewMemory(), kind.Codec{}, store.Options{Logger: log})
	if err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	l := policy.NewLoader(policy.Config{Objects: s, Engine: e, Reasons: framework.NewReasons(0), Now: time.Now, Log: log})
	closeAll := func() error { return errors.Join(l.Close(), s.Close(), e.Close()) }
	if err := builtin.Install(ctx, l); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	l.Load(ctx)
	return l, closeAll, nil
}
