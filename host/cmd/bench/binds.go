package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/binding"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
)

// weighed is an engine that counts what is written.
type weighed struct {
	store.Engine
	bytes, commits atomic.Int64
}

// Commit implements store.Engine.
func (w *weighed) Commit(ctx context.Context, b store.Batch) error {
	w.commits.Add(1)
	for _, put := range b.Puts {
		w.bytes.Add(int64(len(put.Key) + len(put.Value)))
	}
	for _, key := range b.Deletes {
		w.bytes.Add(int64(len(key)))
	}
	return w.Engine.Commit(ctx, b)
}

// measureBinds measures what a bind writes and syncs, among few and many pods.
func measureBinds(ctx context.Context) (table, error) {
	t := table{Name: "binds", Title: "Binds alone, as the scheduler hands them over: 512 pods a commit, each commit synced"}
	for _, stored := range []int{1_000, 50_000} {
		r, err := bindAmong(ctx, stored)
		if err != nil {
			return t, fmt.Errorf("binds among %d pods: %w", stored, err)
		}
		t.Rows = append(t.Rows, r)
	}
	return t, nil
}

const bindsAtOnce, maxBinds = 512, 20_000

func bindAmong(ctx context.Context, stored int) (r row, err error) {
	say("binds among %d pods", stored)
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	disk, err := badger.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return r, err
	}
	engine := &weighed{Engine: disk}
	s, err := store.Open(ctx, engine, kind.Codec{}, store.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	nodes := make([]*v1.Node, bindsAtOnce)
	for i := range nodes {
		nodes[i] = workload{}.node(i)
	}
	if err := createAll(ctx, s, "nodes", nodes); err != nil {
		return r, err
	}
	pods := make([]*v1.Pod, stored)
	for i := range pods {
		pods[i] = named("pod", i)
	}
	if err := createAll(ctx, s, "pods", pods); err != nil {
		return r, err
	}
	n := min(stored, maxBinds)
	bytes, commits, began := engine.bytes.Load(), engine.commits.Load(), time.Now()
	if err := bindAll(ctx, binding.NewWriter(s, nil), pods[:n]); err != nil {
		return r, err
	}
	took := time.Since(began)
	return row{Name: fmt.Sprintf("among %s pods", number(float64(stored)))}.
		with("written/bind", float64(engine.bytes.Load()-bytes)/float64(n), "B").
		with("binds/sync", float64(n)/float64(engine.commits.Load()-commits), "").
		with("binds/s", float64(n)/took.Seconds(), ""), nil
}

func bindAll(ctx context.Context, w *binding.Writer, pods []*v1.Pod) error {
	for len(pods) > 0 {
		n := min(bindsAtOnce, len(pods))
		list := make([]schedule.Binding, n)
		for i := range list {
			list[i] = schedule.Binding{Pod: pods[i], Node: fmt.Sprintf("node-%05d", i)}
		}
		if err := errors.Join(w.Bind(ctx, list)...); err != nil {
			return err
		}
		pods = pods[n:]
	}
	return nil
}

// createAll writes objects straight into a store, many in one commit.
func createAll[T store.Object](ctx context.Context, s *store.Store, resource string, objects []T) error {
	const atOnce = 500
	for len(objects) > 0 {
		n := min(atOnce, len(objects))
		ops := make([]store.Op, n)
		for i, o := range objects[:n] {
			ops[i] = store.Op{Kind: store.Create, Key: store.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}, Object: o}
		}
		if _, _, err := s.Commit(ctx, ops...); err != nil {
			return err
		}
		objects = objects[n:]
	}
	return nil
}
