package badger_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
)

// protoCodec stores Kubernetes' protobuf, as the product does.
type protoCodec struct{}

func (protoCodec) Encode(obj store.Object) ([]byte, error) {
	return obj.(interface{ Marshal() ([]byte, error) }).Marshal()
}

func (protoCodec) Decode(resource string, data []byte) (store.Object, error) {
	if resource == "pods" {
		pod := &corev1.Pod{}
		return pod, pod.Unmarshal(data)
	}
	cm := &corev1.ConfigMap{}
	return cm, cm.Unmarshal(data)
}

func closeStore(t testing.TB, s *store.Store) {
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func benchStore(b *testing.B, engine store.Engine) *store.Store {
	s, err := store.Open(context.Background(), engine, protoCodec{}, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// small is a ConfigMap of 2 KB encoded.
func small(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Data:       map[string]string{"value": strings.Repeat("0123456789abcdef", 120)},
	}
}

// BenchmarkCreate: durable creates of 2 KB by so many writers.
func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			s := benchStore(b, open(b, b.TempDir()))
			defer closeStore(b, s)
			b.ResetTimer()
			used := -processorTime()
			createAll(b, s, writers)
			used += processorTime()
			b.StopTimer()
			b.ReportMetric(float64(used.Microseconds())/float64(b.N), "processor-µs/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
			stats := s.Stats()
			b.ReportMetric(float64(stats.Commits)/float64(stats.Batches), "commits/batch")
		})
	}
}

func createAll(b *testing.B, s *store.Store, writers int) {
	var n atomic.Int64
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				name := fmt.Sprint("x", i)
				op := store.Op{Kind: store.Create, Key: crashKey(name), Object: small(name)}
				if _, _, err := s.Commit(context.Background(), op); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// benchPod is about what a scheduled pod of a ReplicaSet looks like.
func benchPod(i int) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("ns", i%50), Name: fmt.Sprintf("web-5d9c7b8f6d-%05d", i), GenerateName: "web-5d9c7b8f6d-",
			UID: "0e5e8c3e-3f5e-4e6b-9a9c-6f1f4b1d2c3a", CreationTimestamp: metav1.Unix(1700000000, 0),
			Labels:      map[string]string{"app": "web", "pod-template-hash": "5d9c7b8f6d"},
			Annotations: map[string]string{"example.com/note": strings.Repeat("n", 200)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d9c7b8f6d", UID: "5e8c3e0e-3f5e-4e6b-9a9c-6f1f4b1d2c3a", Controller: &yes,
			}},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubectl", Operation: "Apply", APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(strings.Repeat(`{"f:spec":{}}`, 60)),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprint("node-", i%5000), SchedulerName: "default-scheduler", ServiceAccountName: "default",
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/web:v1", ImagePullPolicy: corev1.PullIfNotPresent,
				Ports:        []corev1.ContainerPort{{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				Env:          []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
			}},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.1.2.3", HostIP: "192.168.1.1",
			Conditions:        []corev1.PodCondition{{Type: "Ready", Status: "True"}, {Type: "PodScheduled", Status: "True"}, {Type: "Initialized", Status: "True"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true, Image: "registry.example.com/web:v1"}},
		},
	}
}

// fillPods writes n pods straight into an engine, and returns their bytes.
func fillPods(b *testing.B, e store.Engine, n int) (encoded int) {
	s := benchStore(b, e)
	var group sync.WaitGroup
	var bytes, next atomic.Int64
	for range 8 {
		group.Go(func() {
			for {
				var ops []store.Op
				for i := next.Add(500) - 500; i < int64(n) && len(ops) < 500; i++ {
					pod := benchPod(int(i))
					data, _ := protoCodec{}.Encode(pod)
					bytes.Add(int64(len(data)))
					ops = append(ops, store.Op{Kind: store.Create, Key: store.Key{Resource: "pods", Namespace: pod.Namespace, Name: pod.Name}, Object: pod})
				}
				if len(ops) == 0 {
					return
				}
				if _, _, err := s.Commit(context.Background(), ops...); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return int(bytes.Load())
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// processorTime is what this process has used, whatever else the machine does.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOpen: from the directory to a store that answers, with 150,000 pods
// on disk, and what an object takes in memory beyond its encoded bytes.
func BenchmarkOpen(b *testing.B) {
	const objects = 150_000
	dir := b.TempDir()
	encoded := fillPods(b, open(b, dir), objects)
	before := heap()
	var used time.Duration
	b.ResetTimer()
	for b.Loop() {
		used -= processorTime()
		engine, err := badger.Open(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		s := benchStore(b, engine)
		b.StopTimer()
		used += processorTime()
		list, err := s.List("pods", "", store.ListOptions{})
		if err != nil || len(list.Items) != objects {
			b.Fatalf("%d pods, %v", len(list.Items), err)
		}
		list = store.List{} // or the list would keep what is measured below alive
		b.ReportMetric(float64(encoded)/objects, "encoded-B/object")
		b.ReportMetric((float64(heap())-float64(before)-float64(encoded))/objects, "beyond-B/object")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(used.Seconds()/float64(b.N), "processor-s/op")
}

// BenchmarkWatchers: 1,000 watchers of one resource at 10 events a second, the
// time from before the commit until the last has the event.
func BenchmarkWatchers(b *testing.B) {
	const watchers = 1000
	s := benchStore(b, open(b, b.TempDir()))
	defer closeStore(b, s)
	ctx, stop := context.WithCancel(context.Background())
	var seen sync.WaitGroup
	var group sync.WaitGroup
	var started time.Time
	var mu sync.Mutex
	var delays []time.Duration
	for range watchers {
		w, err := s.Watch("configmaps", "", s.Revision())
		if err != nil {
			b.Fatal(err)
		}
		group.Go(func() {
			for {
				events, err := w.Next(ctx)
				if err != nil {
					return
				}
				delay := time.Since(started)
				if _, err := events[0].Shared("proto", protoCodec{}.Encode); err != nil {
					b.Error(err)
				}
				mu.Lock()
				delays = append(delays, delay)
				mu.Unlock()
				seen.Done()
			}
		})
	}
	polltest.Pass(100 * time.Millisecond) // until the watchers watch
	for i := range b.N {
		seen.Add(watchers)
		started = time.Now()
		name := fmt.Sprint("x", i)
		if _, _, err := s.Commit(ctx, store.Op{Kind: store.Create, Key: crashKey(name), Object: small(name)}); err != nil {
			b.Fatal(err)
		}
		seen.Wait()
	}
	b.StopTimer()
	stop()
	group.Wait()
	slices.Sort(delays)
	b.ReportMetric(float64(delays[len(delays)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkCreateWatched: BenchmarkCreate with 64 writers while others watch:
// a thousand everything, or five thousand a value of an index each.
func BenchmarkCreateWatched(b *testing.B) {
	byName := map[string]map[string]store.IndexFunc{"configmaps": {
		"name": func(obj store.Object) []string { return []string{obj.GetName()} },
	}}
	for name, watch := range map[string]func(s *store.Store, i int) (*store.Watch, error){
		"all=1000": func(s *store.Store, _ int) (*store.Watch, error) { return s.Watch("configmaps", "", s.Revision()) },
		"indexed=5000": func(s *store.Store, i int) (*store.Watch, error) {
			return s.WatchIndexed("configmaps", "name", fmt.Sprint("x", i), s.Revision())
		},
	} {
		b.Run(name, func(b *testing.B) {
			var watchers int
			if _, err := fmt.Sscan(name[strings.Index(name, "=")+1:], &watchers); err != nil {
				b.Fatal(err)
			}
			s, err := store.Open(context.Background(), open(b, b.TempDir()), protoCodec{}, store.Options{Indexes: byName})
			if err != nil {
				b.Fatal(err)
			}
			defer closeStore(b, s)
			ctx, stop := context.WithCancel(context.Background())
			var group sync.WaitGroup
			for i := range watchers {
				w, err := watch(s, i)
				if err != nil {
					b.Fatal(err)
				}
				group.Go(func() {
					defer w.Stop()
					for {
						if _, err := w.Next(ctx); err != nil {
							return
						}
					}
				})
			}
			b.ResetTimer()
			createAll(b, s, 64)
			b.StopTimer()
			stop()
			group.Wait()
		})
	}
}
