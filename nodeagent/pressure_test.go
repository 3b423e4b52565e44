package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/berth-dev/berth/nodeagent/image"
	imagefake "github.com/berth-dev/berth/nodeagent/image/fake"
	networkfake "github.com/berth-dev/berth/nodeagent/network/fake"
	"github.com/berth-dev/berth/nodeagent/node"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
	runtimefake "github.com/berth-dev/berth/nodeagent/runtime/fake"
)

// strained is an agent whose machine, disk and containers a test makes up. Its
// loops do not run: the test looks when it wants to.
type strained struct {
	*Agent
	machine node.Machine
	usage   image.Usage
	stats   []runtime.Stats
	listErr error
	events  *record.FakeRecorder
	removed []string
	images  []image.Image
	runs    []runtime.Container
	written map[string]runtime.Disk // by the name of the pod
	asked   int                     // how often for that
	slow    time.Duration           // how long an answer takes
	// gone is told of each image that is removed.
	gone func()
}

// measured is a runtime of which only what is measured and listed matters.
type measured struct {
	*runtimefake.Runtime
	s *strained
}

func (m measured) Stats(context.Context) ([]runtime.Stats, error) { return m.s.stats, nil }
func (m measured) Written(_ context.Context, ids []string) (map[string]runtime.Disk, error) {
	m.s.asked++
	time.Sleep(m.s.slow)
	return m.s.written, nil
}
func (m measured) List(context.Context) (runtime.Listing, error) {
	return runtime.Listing{Containers: m.s.runs}, m.s.listErr
}

// images is an image store of which only what is there matters.
type images struct {
	*imagefake.Store
	s *strained
}

func (h images) Filesystem(context.Context) (image.Usage, error) { return h.s.usage, nil }
func (h images) List(context.Context) ([]image.Image, error)     { return h.s.images, nil }
func (h images) Remove(_ context.Context, id string) error {
	h.s.removed = append(h.s.removed, id)
	if h.s.gone != nil {
		h.s.gone()
	}
	return nil
}

func newStrained(t *testing.T, p Pressure) *strained {
	t.Helper()
	s := &strained{machine: ample(), usage: image.Usage{Capacity: 1000, Available: 900}, events: record.NewFakeRecorder(100)}
	a, err := New(Config{
		Client: fake.NewClientset(), NodeName: "n1", RootDir: t.TempDir(), Address: "192.0.2.1", Pressure: p, Log: slog.New(slog.DiscardHandler),
		Runtime: measured{runtimefake.New(), s}, Images: images{imagefake.New(), s}, Network: networkfake.New(netip.MustParsePrefix("10.9.0.0/24")),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.measure = func(string) (node.Machine, error) { return s.machine, nil }
	a.recorder = s.events
	s.Agent = a
	return s
}

// ample is a machine that has enough of everything.
func ample() node.Machine {
	return node.Machine{
		Memory: 8 << 30, MemoryAvailable: 4 << 30, Disk: 1000, DiskAvailable: 500, Inodes: 1000, InodesFree: 500, PidsMax: 1000, PidsUsed: 100,
	}
}

// hear gives what is logged from now on, without the time.
func (s *strained) hear() *strings.Builder {
	said := new(strings.Builder)
	s.log = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})).With("node", s.cfg.NodeName)
	return said
}

// add puts a pod on the machine that uses some of its memory (or process ids).
func (s *strained) add(name string, priority int32, request string, used int64) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	p.Spec.Priority = &priority
	p.Spec.Containers = []v1.Container{{Name: "app"}}
	if request != "" {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
	}
	s.pool.Set(p, nil)
	s.record(name, func(r *pod.Record) {
		r.DidSetUp()
		r.Containers["app"].ID = name // as the runtime has it
	})
	s.stats = append(s.stats, runtime.Stats{
		Pod: runtime.PodMeta{UID: name}, Name: "app", WorkingSetBytes: uint64(used), Pids: uint64(used),
	})
}

// record changes what is known of a pod.
func (s *strained) record(name string, change func(*pod.Record)) {
	s.pool.Each(func(r *pod.Record) {
		if r.Pod.Name == name {
			change(r)
		}
	})
}

// evicted names the pods that were told to end, and why.
func (s *strained) evicted() map[string]pod.Verdict {
	out := map[string]pod.Verdict{}
	s.pool.Each(func(r *pod.Record) {
		if r.Ended != nil {
			out[r.Pod.Name] = *r.Ended
		}
	})
	return out
}

func (s *strained) told() (all []string) {
	for {
		select {
		case e := <-s.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*node.Machine)
		want   []v1.ResourceName
	}{
		{"enough of everything", func(*node.Machine) {}, nil},
		{"memory just at its threshold", func(m *node.Machine) { m.MemoryAvailable = 100 << 20 }, nil},
		{"memory just below", func(m *node.Machine) { m.MemoryAvailable = 100<<20 - 1 }, []v1.ResourceName{v1.ResourceMemory}},
		{"disk at a tenth", func(m *node.Machine) { m.DiskAvailable = 100 }, nil},
		{"disk below a tenth", func(m *node.Machine) { m.DiskAvailable = 99 }, []v1.ResourceName{v1.ResourceEphemeralStorage}},
		{"inodes below a twentieth", func(m *node.Machine) { m.InodesFree = 49 }, []v1.ResourceName{inodes}},
		{"a disk without inodes", func(m *node.Machine) { m.Inodes, m.InodesFree = 0, 0 }, nil},
		{"process ids below a tenth", func(m *node.Machine) { m.PidsUsed = 901 }, []v1.ResourceName{pids}},
		{"memory before all else", func(m *node.Machine) { m.MemoryAvailable, m.DiskAvailable, m.PidsUsed = 1, 1, 999 },
			[]v1.ResourceName{v1.ResourceMemory, v1.ResourceEphemeralStorage, pids}},
	} {
		var p Pressure
		p.defaults()
		m := ample()
		tt.change(&m)
		var got []v1.ResourceName
		for _, s := range p.short(m, image.Usage{}) {
			got = append(got, s.resource)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestPressureShowsAndHoldsOn(t *testing.T) {
	t.Parallel()
	p := &pressure{}
	is := func() (names []string) {
		for _, c := range p.conditions() {
			if c.Status == v1.ConditionTrue {
				names = append(names, string(c.Type)+" "+c.Reason)
			}
		}
		return names
	}
	now := time.Now()
	p.see(true, false, false, now)
	if diff := cmp.Diff([]string{"MemoryPressure KubeletHasInsufficientMemory"}, is()); diff != "" {
		t.Error(diff)
	}
	p.see(false, true, true, now.Add(time.Minute))
	want := []string{"MemoryPressure KubeletHasInsufficientMemory", "DiskPressure KubeletHasDiskPressure", "PIDPressure KubeletHasInsufficientPID"}
	if diff := cmp.Diff(want, is()); diff != "" {
		t.Errorf("a minute later: %s", diff)
	}
	p.see(false, false, false, now.Add(5*time.Minute))
	if diff := cmp.Diff(want[1:], is()); diff != "" {
		t.Errorf("five minutes after the first: %s", diff)
	}
	p.see(false, false, false, now.Add(6*time.Minute))
	if got := is(); got != nil {
		t.Errorf("after all: %q", got)
	}
}

func TestPressureTurnsPodsAway(t *testing.T) {
	t.Parallel()
	system := int32(systemCritical)
	best, burstable, vital, tolerant, fixed := &v1.Pod{}, &v1.Pod{}, &v1.Pod{}, &v1.Pod{}, &v1.Pod{}
	burstable.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}}
	vital.Spec.Priority = &system
	fixed.Annotations = map[string]string{"kubernetes.io/config.source": "file"} // a static one
	tolerant.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists}}
	for _, tt := range []struct {
		memory, disk, pid bool
		away              []*v1.Pod
		message           string
	}{
		{false, false, false, nil, ""},
		{true, false, false, []*v1.Pod{best}, "The node had condition: [MemoryPressure]. "},
		{false, true, false, []*v1.Pod{best, burstable, tolerant}, "The node had condition: [DiskPressure]. "},
		{true, false, true, []*v1.Pod{best, burstable, tolerant}, "The node had condition: [MemoryPressure PIDPressure]. "},
	} {
		p := &pressure{memory: tt.memory, disk: tt.disk, pid: tt.pid}
		for _, obj := range []*v1.Pod{best, burstable, vital, tolerant, fixed} {
			v := p.refuses(obj)
			if (v != nil) != slices.Contains(tt.away, obj) {
				t.Errorf("%q: %+v for %+v", tt.message, v, obj.Spec)
			}
			if v != nil && (v.Reason != "Evicted" || v.Message != "Pod was rejected: "+tt.message) {
				t.Errorf("refused as %+v, want %q", v, tt.message)
			}
		}
	}
}

func TestRank(t *testing.T) {
	t.Parallel()
	one := func(name string, priority int32, request, usage int64) candidate {
		return candidate{pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}}, priority: priority, request: request, usage: usage}
	}
	all := []candidate{
		one("within-low", 1, 100, 50), one("within-high", 9, 100, 99), one("over-high", 9, 10, 500),
		one("over-low-little", 1, 10, 20), one("over-low-much", 1, 10, 300), one("same-b", 1, 10, 20), one("exact", 0, 70, 70),
	}
	for name, want := range map[v1.ResourceName][]string{
		v1.ResourceMemory: {"over-low-much", "over-low-little", "same-b", "over-high", "exact", "within-low", "within-high"},
		pids:              {"exact", "over-low-much", "over-low-little", "same-b", "within-low", "over-high", "within-high"},
	} {
		for range 2 { // whatever the order they come in
			slices.Reverse(all)
			rank(all, name)
			var got []string
			for _, c := range all {
				got = append(got, string(c.pod.UID))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestOnePodAtATimeIsEvicted(t *testing.T) {
	t.Parallel()
	s := newStrained(t, Pressure{})
	s.add("vital", systemCritical, "", 5<<30)
	s.add("static", 0, "", 6<<30)
	s.record("static", func(r *pod.Record) { r.Pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"} })
	s.add("modest", 0, "2Gi", 1<<30)
	s.add("greedy", 0, "1Gi", 2<<30)
	s.machine.MemoryAvailable = 50 << 20
	for range 3 { // the second and third look find that one is leaving
		s.look(t.Context())
	}
	const message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. " +
		"Container app was using 2Gi, request is 1Gi, has larger consumption of memory. "
	want := map[string]pod.Verdict{"greedy": {Reason: "Evicted", Message: message, Disruption: "TerminationByKubelet"}}
	if diff := cmp.Diff(want, s.evicted()); diff != "" {
		t.Error(diff)
	}
	s.record("greedy", func(r *pod.Record) {
		if r.KillGrace != time.Second {
			t.Errorf("its grace is %v", r.KillGrace)
		}
	})
	told := s.told()
	for _, text := range []string{"Warning EvictionThresholdMet Attempting to reclaim memory", "Warning Evicted " + message} {
		if !slices.Contains(told, text) {
			t.Errorf("no event %q in %q", text, told)
		}
	}
}

// Nobody waits for a pod that has ended already, that ends later, or that does not end.
func TestEvictionGoesOnBesideWhatFreesNothing(t *testing.T) {
	t.Parallel()
	ends := func(since, grace time.Duration) func(*pod.Record) {
		return func(r *pod.Record) {
			r.End(pod.Verdict{Reason: "Evicted"}, grace, time.Now().Add(-since))
			r.Ended = nil // the test sees by it whether it is evicted
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*pod.Record)
		want   string
	}{
		{"it was evicted, and its object stays", func(r *pod.Record) { ends(0, 0)(r); r.DidTearDown(time.Now()) }, "next"},
		{"it ends within a second", ends(0, time.Second), ""},
		{"it has a day to end", ends(0, 24*time.Hour), "first"},
		{"it is over its time", ends(20*time.Second, time.Second), ""},
		{"it hangs", ends(time.Minute, time.Second), "next"},
	} {
		s := newStrained(t, Pressure{})
		s.add("first", 0, "", 2<<30)
		s.add("next", 0, "", 1<<30)
		s.record("first", tt.change)
		s.machine.MemoryAvailable = 50 << 20
		for range 3 {
			s.look(t.Context())
		}
		got := s.evicted()
		if _, ok := got[tt.want]; len(got) > 1 || ok != (tt.want != "") {
			t.Errorf("%s: evicted %+v, want %q", tt.name, got, tt.want)
		}
	}
}

func TestProcessIdsAreReclaimed(t *testing.T) {
	t.Parallel()
	s := newStrained(t, Pressure{})
	s.add("quiet", 0, "", 3)
	s.add("forking", 0, "", 700)
	s.add("dear", 10, "", 800)
	s.machine.PidsUsed = 950
	s.look(t.Context())
	got := s.evicted()
	if len(got) != 1 || !strings.HasPrefix(got["forking"].Message, "The node was low on resource: pids. Threshold quantity: 100, available: 50. ") {
		t.Errorf("evicted %+v", got)
	}
}

func TestFullDiskEndsWhoFilledIt(t *testing.T) {
	t.Parallel()
	s := newStrained(t, Pressure{})
	s.add("small", 0, "", 0)
	s.add("logger", 0, "", 0)
	dir := filepath.Join(s.cfg.RootDir, "logs", "default_logger_logger", "app")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "0.log"), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	s.machine.DiskAvailable = 1
	s.look(t.Context())
	if got := s.evicted(); len(got) != 1 || !strings.HasPrefix(got["logger"].Message, "The node was low on resource: ephemeral-storage. ") {
		t.Errorf("evicted %+v", got)
	}
}

func TestFullDiskEndsWhoWroteMost(t *testing.T) {
	t.Parallel()
	for _, name := range []v1.ResourceName{v1.ResourceEphemeralStorage, inodes} {
		s := newStrained(t, Pressure{})
		s.add("bytes", 0, "", 0)
		s.add("files", 0, "", 0)
		s.written = map[string]runtime.Disk{"bytes": {Bytes: 2 << 20, Files: 1}, "files": {Bytes: 1 << 20, Files: 900}}
		want := map[string]string{"bytes": "Container app was using 2Mi, request is 0, has larger consumption of ephemeral-storage. "}
		s.machine.DiskAvailable = 1
		if name == inodes {
			s.machine.DiskAvailable, s.machine.InodesFree = 500, 1
			want = map[string]string{"files": "Container app was using 900, request is 0, has larger consumption of inodes. "}
		}
		s.look(t.Context())
		got := s.evicted()
		for victim, text := range want {
			if len(got) != 1 || !strings.HasSuffix(got[victim].Message, text) {
				t.Errorf("%s: evicted %+v, want %s with %q", name, got, victim, text)
			}
		}
	}
}

func TestLimitsOfEphemeralStorage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		first, second string // limits of two containers
		wrote         [2]int64
		logged        int
		want          string
	}{
		{"within both", "2Mi", "1Mi", [2]int64{2 << 20, 1 << 20}, 0, ""},
		{"one container over its own", "2Mi", "4Mi", [2]int64{2<<20 + 1, 0}, 0, `Container first exceeded its local ephemeral storage limit "2Mi". `},
		{"one with what it logged", "2Mi", "4Mi", [2]int64{2 << 20, 0}, 4096, `Container first exceeded its local ephemeral storage limit "2Mi". `},
		{"both together over their sum", "2Mi", "1Mi", [2]int64{2 << 20, 1<<20 + 1}, 0, "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. "},
		{"one without a limit counts for the pod", "2Mi", "", [2]int64{0, 3 << 20}, 0, "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "},
		{"no limits at all", "", "", [2]int64{1 << 40, 1 << 40}, 4096, ""},
	} {
		s := newStrained(t, Pressure{})
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}}
		p.Spec.Containers = []v1.Container{{Name: "first"}, {Name: "second"}}
		for i, limit := range []string{tt.first, tt.second} {
			if limit != "" {
				p.Spec.Containers[i].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(limit)}
			}
		}
		s.pool.Set(p, nil)
		s.pool.Each(func(r *pod.Record) {
			r.DidSetUp()
			r.Containers["first"].ID, r.Containers["second"].ID = "1", "2"
		})
		s.written = map[string]runtime.Disk{"1": {Bytes: tt.wrote[0]}, "2": {Bytes: tt.wrote[1]}}
		if tt.logged > 0 {
			dir := filepath.Join(s.cfg.RootDir, "logs/default_p_p/first")
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "0.log"), make([]byte, tt.logged), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		s.evictBySize(t.Context())
		if got := s.evicted()["p"].Message; got != tt.want {
			t.Errorf("%s: evicted with %q, want %q", tt.name, got, tt.want)
		}
		if limits := tt.first + tt.second; (s.asked > 0) != (limits != "") {
			t.Errorf("%s: measured %d times", tt.name, s.asked)
		}
	}
}

// A disk that takes long to measure is measured seldom.
func TestMeasuringTheDiskHasItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStrained(t, Pressure{})
		defer s.Agent.events.Shutdown()
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}}
		p.Spec.Containers = []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Gi")},
		}}}
		s.pool.Set(p, nil)
		s.pool.Each(func(r *pod.Record) { r.DidSetUp() })
		s.slow = 3 * time.Second
		for range 14 { // 0, 10 … 130 s, and the time that measuring takes
			s.evictBySize(t.Context())
			time.Sleep(10 * time.Second)
		}
		if s.asked != 3 {
			t.Errorf("measured %d times, want once a minute: each takes 3s", s.asked)
		}
	})
}

func TestVolumeOverItsLimitEndsItsPod(t *testing.T) {
	t.Parallel()
	s := newStrained(t, Pressure{})
	limit := resource.MustParse("4Ki")
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}}
	p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
	p.Spec.Containers = []v1.Container{{Name: "app"}}
	s.pool.Set(p, nil)
	s.pool.Each(func(r *pod.Record) { r.DidSetUp() })
	dir := filepath.Join(s.cfg.RootDir, "pods/p/volumes/v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.evictBySize(t.Context())
	if got := s.evicted(); len(got) != 0 {
		t.Fatalf("evicted for an empty volume: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	s.diskNext = nil // the next look may be now
	s.evictBySize(t.Context())
	want := map[string]pod.Verdict{"p": {Reason: "Evicted", Message: `Usage of EmptyDir volume "v" exceeds the limit "4Ki". `}}
	if diff := cmp.Diff(want, s.evicted()); diff != "" {
		t.Error(diff)
	}
}

func TestImagesAreCollectedBetweenTheirMarks(t *testing.T) {
	t.Parallel()
	s := newStrained(t, Pressure{})
	start := time.Now()
	old := func(id string, size int64) image.Image {
		return image.Image{ID: id, Size: size, PulledAt: start.Add(-time.Hour)}
	}
	s.images = []image.Image{old("run", 100), old("mounted", 100), old("stopped", 30), old("never", 40), old("pause", 100)}
	s.images[4].Pinned = true
	s.runs = []runtime.Container{{Image: "run", MountedImages: []string{"mounted"}}, {Image: "stopped"}}
	s.collectImages(t.Context(), s.usage, false, start) // it gets to know them
	s.runs = s.runs[:1]

	fill := func(available int64) { s.usage.Available = available }
	later := start.Add(10 * time.Minute)
	s.images = append(s.images, image.Image{ID: "new", Size: 50, PulledAt: later})
	fill(151)
	s.collectImages(t.Context(), s.usage, false, later)
	if len(s.removed) != 0 {
		t.Errorf("below the high mark %q were removed", s.removed)
	}
	fill(150)
	s.collectImages(t.Context(), s.usage, false, later) // 50 too much: the one never used, then the one used last
	if diff := cmp.Diff([]string{"never", "stopped"}, s.removed); diff != "" {
		t.Errorf("at the high mark: %s", diff)
	}
	if told := s.told(); len(told) != 0 {
		t.Errorf("told %q", told)
	}

	s.removed, s.images = nil, slices.DeleteFunc(s.images, func(i image.Image) bool { return i.ID == "never" || i.ID == "stopped" })
	fill(10)
	s.collectImages(t.Context(), s.usage, false, later.Add(time.Minute))
	if len(s.removed) != 0 {
		t.Errorf("removed %q: all are in use, pinned or new", s.removed)
	}
	if want := "Warning FreeDiskSpaceFailed Failed to garbage collect required amount of images. Attempted to free 190 bytes, but only found 0 bytes eligible to free."; !slices.Contains(s.told(), want) {
		t.Errorf("no event %q", want)
	}
	s.collectImages(t.Context(), s.usage, false, later.Add(2*time.Minute))
	if diff := cmp.Diff([]string{"new"}, s.removed); diff != "" {
		t.Errorf("two minutes on: %s", diff)
	}
}

func TestNothingIsCollectedUnseen(t *testing.T) {
	t.Parallel()
	s := newStrained(t, Pressure{})
	now := time.Now()
	s.images = []image.Image{{ID: "a", Size: 1}}
	s.collectImages(t.Context(), s.usage, false, now)
	s.usage.Available, s.listErr = 0, errors.New("containerd is away")
	s.collectImages(t.Context(), s.usage, false, now.Add(time.Hour))
	if len(s.removed) != 0 {
		t.Errorf("removed %q while nobody knows what is in use", s.removed)
	}
	s.listErr = nil
	for i := range 3 {
		s.images = append(s.images, image.Image{ID: fmt.Sprint("b", i), Size: 1})
	}
	s.collectImages(t.Context(), s.usage, false, now.Add(time.Hour))
	if diff := cmp.Diff([]string{"a"}, s.removed); diff != "" {
		t.Error(diff)
	}
}
