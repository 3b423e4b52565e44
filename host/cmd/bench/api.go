package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
)

// What the API is measured with, and the aims.
const (
	apiClients       = 64
	createFor        = 6 * time.Second
	watchers         = 1000
	watchConnections = 20
	watchEvents      = 80
	listed           = 10_000
	lists            = 20
	onDisk           = 150_000

	aimCreates = 8_000 // a second
	aimWatch   = 50    // ms
	aimList    = 150   // ms
	aimReady   = 2     // s
	aimMemory  = 4     // KiB an object
)

// Names of etcd's figures, as etcdload gives them.
const (
	etcdCreates = "creates/s"
	etcdCreate  = "create p99, ms"
	etcdWatch   = "watch p99, ms"
	etcdList    = "list, ms"
	etcdReady   = "ready, s"
	etcdMemory  = "memory, KiB"
)

// measureAPI measures the API and its store, and etcd beside it.
func measureAPI(ctx context.Context, _ *options) ([]table, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var a apiFigures
	if err := a.measure(ctx, dir); err != nil {
		return nil, err
	}
	settle()
	say("etcd: the same writes")
	beside, err := measureEtcd(ctx, filepath.Join(dir, "etcd"), a.smallBytes, a.podBytes)
	return []table{a.table(beside)}, err
}

// apiFigures are Berth's side.
type apiFigures struct {
	perSecond            float64
	create, watch, list  times
	ready                time.Duration
	inStore, inHost      float64 // bytes of memory an object, beyond its own
	smallBytes, podBytes []byte  // as they are stored
}

func (a *apiFigures) table(etcd map[string]float64) table {
	beside := func(r row, name, unit string) row {
		if v, ok := etcd[name]; ok {
			return r.with("etcd", v, unit)
		}
		return r
	}
	t := table{Name: "api", Title: "The API over loopback and TLS, clients and server on the same cores, synced writes"}
	t.Rows = []row{
		beside(one("small creates, 64 clients", a.perSecond, "/s"), etcdCreates, "/s").least(aimCreates),
		beside(one("a small create, p99", millis(a.create.at(0.99)), "ms"), etcdCreate, "ms"),
		beside(one("an event to 1,000 watchers, 10 events/s, p99", millis(a.watch.at(0.99)), "ms"), etcdWatch, "ms").most(aimWatch),
		beside(one("LIST of 10,000 pods in protobuf, to the last byte, median", millis(a.list.at(0.5)), "ms"), etcdList, "ms").most(aimList),
		beside(one("ready with 150,000 objects on disk", a.ready.Seconds(), "s"), etcdReady, "s").most(aimReady),
		beside(one("memory an object in the store, beyond its encoded bytes", a.inStore/1024, "KiB"), etcdMemory, "KiB").most(aimMemory),
		one("the same in the whole host, where all are pods that the scheduler counts", a.inHost/1024, "KiB"),
	}
	if etcd == nil {
		t.Notes = append(t.Notes, "etcd was not measured: `.ci/tools/etcd.sh` builds it.")
	} else {
		t.Notes = append(t.Notes, "etcd's memory is what it holds beside its file, which the kernel caches; its LIST is a range of the same bytes.")
	}
	return t
}

func (a *apiFigures) measure(ctx context.Context, dir string) error {
	data := filepath.Join(dir, "host")
	r, err := newRig(ctx, data, slog.LevelWarn)
	if err != nil {
		return err
	}
	before := liveHeap()
	if err := errors.Join(a.serving(ctx, r), r.stop()); err != nil {
		return err
	}
	return a.restart(ctx, data, before)
}

// serving measures what needs a running host.
func (a *apiFigures) serving(ctx context.Context, r *rig) error {
	for _, name := range []string{first, second} {
		ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		name string
		do   func(context.Context, *rig) error
	}{{"small creates by 64 clients", a.creates}, {"1,000 watchers", a.watches}, {"lists of 10,000 pods", a.lists}} {
		say("api: %s", step.name)
		if err := step.do(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		settle()
	}
	return nil
}

const configMaps = "/api/v1/namespaces/" + first + "/configmaps"

func (a *apiFigures) creates(ctx context.Context, r *rig) error {
	body, err := inProtobuf(small(first))
	if err != nil {
		return err
	}
	clients, err := r.webs(apiClients)
	if err != nil {
		return err
	}
	defer closeWebs(clients)
	for _, c := range clients { // the handshakes do not count
		if _, err := c.do(ctx, http.MethodPost, configMaps, asProtobuf, asProtobuf, body); err != nil {
			return err
		}
	}
	took := make([]times, len(clients))
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for i, c := range clients {
		group.Go(func() error {
			for time.Since(began) < createFor {
				start := time.Now()
				if _, err := c.do(ctx, http.MethodPost, configMaps, asProtobuf, asProtobuf, body); err != nil {
					return err
				}
				took[i] = append(took[i], time.Since(start))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	a.create = slices.Concat(took...)
	a.perSecond = float64(len(a.create)) / time.Since(began).Seconds()
	return a.keepSmall(context.WithoutCancel(ctx), r)
}

// keepSmall takes a small object as it was stored.
func (a *apiFigures) keepSmall(ctx context.Context, r *rig) error {
	list, err := r.client.CoreV1().ConfigMaps(first).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return errors.New("no object was created")
	}
	a.smallBytes, err = stored(&list.Items[0], "ConfigMap")
	return err
}

// stored is an object of the core group as the store keeps it.
func stored(o store.Object, name string) ([]byte, error) {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: name})
	return kind.Codec{}.Encode(o)
}

// watches sends events to many watchers and notes how late each has each.
func (a *apiFigures) watches(ctx context.Context, r *rig) error {
	const watched = "/api/v1/namespaces/" + second + "/configmaps"
	clients, err := r.webs(watchConnections)
	if err != nil {
		return err
	}
	defer closeWebs(clients)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now, err := r.client.CoreV1().ConfigMaps(second).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	sent := make([]atomic.Int64, watchEvents)
	late := make([]times, watchers)
	var reading sync.WaitGroup
	for i := range watchers {
		body, err := clients[i%len(clients)].open(ctx, http.MethodGet, watched+"?watch=1&resourceVersion="+now.ResourceVersion, "", asProtobuf+";stream=watch", nil)
		if err != nil {
			return err
		}
		reading.Go(func() {
			defer body.Close()
			late[i] = follow(body, sent)
		})
	}
	if err := a.emit(ctx, r, watched, sent); err != nil {
		return err
	}
	stop := time.AfterFunc(30*time.Second, cancel)
	reading.Wait()
	stop.Stop()
	a.watch = slices.Concat(late...)
	if len(a.watch) != watchers*watchEvents {
		return fmt.Errorf("%d events arrived of %d", len(a.watch), watchers*watchEvents)
	}
	return nil
}

// emit creates ten objects a second. The time before an event counts from
// before the request that makes it.
func (a *apiFigures) emit(ctx context.Context, r *rig, path string, sent []atomic.Int64) error {
	body, err := inProtobuf(small(second))
	if err != nil {
		return err
	}
	client, err := r.web()
	if err != nil {
		return err
	}
	defer closeWebs([]*web{client})
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for n := range sent {
		<-ticker.C
		sent[n].Store(time.Now().UnixNano())
		if _, err := client.do(ctx, http.MethodPost, path, asProtobuf, asProtobuf, body); err != nil {
			return err
		}
	}
	return nil
}

// follow reads one frame for each event that is sent: its length and itself.
func follow(from io.Reader, sent []atomic.Int64) (late times) {
	var head [4]byte
	for n := range sent {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return late
		}
		if _, err := io.CopyN(io.Discard, from, int64(binary.BigEndian.Uint32(head[:]))); err != nil {
			return late
		}
		late = append(late, time.Duration(time.Now().UnixNano()-sent[n].Load()))
	}
	return late
}

func (a *apiFigures) lists(ctx context.Context, r *rig) error {
	err := each(ctx, apiClients, listed, func(ctx context.Context, _ int) error {
		p := plain()
		p.Spec.SchedulerName = "nobody"
		_, err := r.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	client, err := r.web()
	if err != nil {
		return err
	}
	defer closeWebs([]*web{client})
	for range lists {
		start := time.Now()
		if _, err := client.do(ctx, http.MethodGet, "/api/v1/pods", "", asProtobuf, nil); err != nil {
			return err
		}
		a.list = append(a.list, time.Since(start))
	}
	return nil
}

// restart fills the store of a host that has stopped, and starts it again.
func (a *apiFigures) restart(ctx context.Context, data string, before uint64) error {
	say("api: a start with 150,000 objects")
	bytes, err := a.fill(ctx, filepath.Join(data, "store"))
	if err != nil {
		return err
	}
	if a.inStore, err = memoryOf(ctx, filepath.Join(data, "store"), bytes); err != nil {
		return err
	}
	settle()
	began := time.Now()
	r, err := newRig(ctx, data, slog.LevelWarn)
	if err != nil {
		return err
	}
	a.ready = time.Since(began)
	time.Sleep(2 * time.Second) // until what follows the start has settled
	a.inHost = (float64(liveHeap()) - float64(before) - float64(bytes)) / onDisk
	return r.stop()
}

// fill writes bound pods, and nodes for them, straight into a store, and
// returns how many bytes they are.
func (a *apiFigures) fill(ctx context.Context, dir string) (bytes int, err error) {
	const nodes = 5_000
	disk, err := badger.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	s, err := store.Open(ctx, disk, kind.Codec{}, store.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	some := make([]*v1.Node, nodes)
	for i := range some {
		some[i] = workload{}.node(i)
	}
	if err := createAll(ctx, s, "nodes", some); err != nil {
		return 0, err
	}
	for from := 0; from < onDisk-nodes; from += nodes {
		pods := make([]*v1.Pod, nodes)
		for i := range pods {
			pods[i] = running(from+i, some[i].Name)
		}
		if err := createAll(ctx, s, "pods", pods); err != nil {
			return 0, err
		}
	}
	a.podBytes, err = stored(running(0, some[0].Name), "Pod")
	return onDisk * len(a.podBytes), err
}

// memoryOf opens a store and returns what an object takes beyond its bytes.
func memoryOf(ctx context.Context, dir string, bytes int) (float64, error) {
	before := liveHeap()
	disk, err := badger.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	s, err := store.Open(ctx, disk, kind.Codec{}, store.Options{Indexes: registry.Indexes()})
	if err != nil {
		return 0, err
	}
	beyond := (float64(liveHeap()) - float64(before) - float64(bytes)) / onDisk
	return beyond, s.Close()
}

// running is a pod as its node reports it.
func running(i int, node string) *v1.Pod {
	p := named("running", i)
	p.CreationTimestamp = metav1.NewTime(time.Unix(1_700_000_000, 0))
	p.Labels = map[string]string{"app": fmt.Sprint("app-", i%50), "pod-template-hash": "5d9c7b8f6d"}
	p.Spec.NodeName = node
	p.Spec.ServiceAccountName = "default"
	p.Spec.RestartPolicy, p.Spec.DNSPolicy = v1.RestartPolicyAlways, v1.DNSClusterFirst
	p.Status = v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.1.2.3", HostIP: "192.168.1.1"}
	for _, c := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: c, Status: v1.ConditionTrue})
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "pause", Ready: true, Image: "registry.k8s.io/pause:3.10"}}
	return p
}

// liveHeap is what is alive after a collection.
func liveHeap() uint64 {
	settle()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return mem.HeapAlloc
}

// unknown is the figure of what could not be measured.
var unknown = math.NaN()
