package controllers

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

// BenchmarkAsk is what a question about a parent of thousands costs its guest, of
// which a few have changed since the last: most questions of a roll-out are such.
func BenchmarkAsk(b *testing.B) {
	const changed = 300
	m := compiled(b)
	for _, one := range []struct {
		kind string
		n    int
	}{{"ReplicaSet", 10_000}, {"StatefulSet", 5_000}, {"DaemonSet", 5_000}, {"Job", 10_000}} {
		b.Run(one.kind, func(b *testing.B) {
			g := open(b, m, one.kind)
			parent, others := large(one.kind, one.n)
			s := storetest.OpenEngine(b, store.NewMemory(), store.Options{Indexes: controller.Indexes(registry.Indexes())})
			d, err := controller.New(controller.Config{Guest: g, Objects: s, Types: controllertest.Types, Usage: used, Now: func() time.Time { return time.Unix(1_800_001_000, 0) }})
			if err != nil {
				b.Fatal(err)
			}
			commit := func(op store.OpKind, list []store.Object) {
				for _, o := range list {
					k, _ := kind.Of(o)
					if _, _, err := s.Commit(b.Context(), store.Op{Kind: op, Key: k.Key(o.GetNamespace(), o.GetName()), Object: o}); err != nil {
						b.Fatal(err)
					}
				}
			}
			if j, ok := parent.(*batchv1.Job); ok { // in the midst of its work
				start := metav1.NewTime(time.Unix(1_800_000_000, 0))
				j.Status = batchv1.JobStatus{StartTime: &start, Active: 1000, Succeeded: 9000, CompletedIndexes: "0-8999", UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}}
				for i, o := range others {
					p := o.(*v1.Pod)
					if i < 9000 {
						p.Finalizers = nil
					} else {
						p.Status.Phase = v1.PodRunning
					}
				}
			}
			commit(store.Create, append([]store.Object{parent}, others...))
			k, _ := kind.Of(parent)
			var fuel, took, at int
			for b.Loop() {
				some := make([]store.Object, changed)
				for i := range some {
					at++
					o := others[len(others)-1-at%min(1000, len(others))]
					stored, _ := s.Get(mustKey(o))
					p := stored.DeepCopyObject().(store.Object)
					if pod, ok := p.(*v1.Pod); ok {
						pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Unix(1_800_000_000+int64(at), 0))
					}
					some[i] = p
				}
				commit(store.Update, some)
				parent, _ = s.Get(k.Key(parent.GetNamespace(), parent.GetName()))
				in, err := d.Input(parent)
				if err != nil {
					b.Fatal(err)
				}
				f, _, t, err := g.ask(in)
				if err != nil {
					b.Fatal(err)
				}
				fuel, took = fuel+int(f), took+int(t)
			}
			b.ReportMetric(float64(fuel)/float64(b.N)/float64(one.n), "fuel/child")
			b.ReportMetric(float64(took)/float64(b.N)/1e6, "guest-ms/op")
			b.ReportMetric(float64(g.in.MemoryBytes()>>20), "MiB")
		})
	}
}

func mustKey(o store.Object) store.Key {
	k, _ := kind.Of(o)
	return k.Key(o.GetNamespace(), o.GetName())
}
