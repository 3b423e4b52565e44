package schedule

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/host/schedule/volumes"

	"golang.org/x/tools/txtar"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what scenarios gave into testdata")

// TestScenarios walks the scripts in testdata. A script's sections are done in
// order:
//
//	apply        YAML of objects that are created or changed
//	delete       YAML of objects that are deleted
//	tick 5s      time passes
//	bind fails   binds fail until "bind works"
//	evict late   victims stay until "evict works"
//	writes fail  evictions, and what is asked of volumes, fail until "writes work"
//	expect       what the core and its world hold now
//
// After each section the core decides all that is ready, and what it asks for is
// done.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scenarios: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			playScenario(t, file)
		})
	}
}

func playScenario(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	for i := range archive.Files {
		section := &archive.Files[i]
		if strings.HasPrefix(section.Name, "expect") {
			got := s.table()
			if *update {
				section.Data = []byte(got)
			}
			if want := string(section.Data); got != want {
				t.Errorf("%s: section %d, %s:\n%s\nwant:\n%s", file, i+1, section.Name, got, want)
			}
			continue
		}
		s.do(section.Name, section.Data)
		s.run()
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// stage is a world that does what the core asks, at once, or not at all.
type stage struct {
	t         *testing.T
	core      *core
	now       time.Time
	pods      map[string]*v1.Pod
	messages  map[string]string
	bindFails bool
	evictLate bool
	// writesFail is of evictions and provisions.
	writesFail bool
}

func newStage(t *testing.T) *stage {
	reasons := framework.NewReasons(0)
	set := policytest.Set(1, policytest.Default(reasons))
	s := &stage{t: t, now: time.Unix(1e9, 0), pods: map[string]*v1.Pod{}, messages: map[string]string{}}
	s.core = newCore(Config{Set: func() *framework.LiveSet { return set }, Reasons: reasons, Clock: func() time.Time { return s.now }})
	return s
}

func (s *stage) do(command string, data []byte) {
	switch {
	case command == "apply", command == "delete":
		for _, e := range s.parse(data) {
			e.Deleted = command == "delete"
			s.tell(e)
		}
	case strings.HasPrefix(command, "tick "):
		d, err := time.ParseDuration(strings.TrimPrefix(command, "tick "))
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
	case command == "bind fails", command == "bind works":
		s.bindFails = command == "bind fails"
	case command == "evict late", command == "evict works":
		s.evictLate = command == "evict late"
	case command == "writes fail", command == "writes work":
		s.writesFail = command == "writes fail"
	default:
		s.t.Fatalf("no such command: %s", command)
	}
}

var kinds = map[string]func() snapshot.Object{
	"nodes":                         func() snapshot.Object { return &v1.Node{} },
	"pods":                          func() snapshot.Object { return &v1.Pod{} },
	"persistentvolumes":             func() snapshot.Object { return &v1.PersistentVolume{} },
	"persistentvolumeclaims":        func() snapshot.Object { return &v1.PersistentVolumeClaim{} },
	"storageclasses.storage.k8s.io": func() snapshot.Object { return &storagev1.StorageClass{} },
	"poddisruptionbudgets.policy":   func() snapshot.Object { return &policyv1.PodDisruptionBudget{} },
}

var resources = map[string]string{
	"Node": "nodes", "Pod": "pods", "PersistentVolume": "persistentvolumes", "PersistentVolumeClaim": "persistentvolumeclaims",
	"StorageClass": "storageclasses.storage.k8s.io", "PodDisruptionBudget": "poddisruptionbudgets.policy",
}

func (s *stage) parse(data []byte) []Event {
	var events []Event
	for _, doc := range bytes.Split(data, []byte("---\n")) {
		var head struct{ Kind string }
		if err := yaml.Unmarshal(doc, &head); err != nil {
			s.t.Fatal(err)
		}
		resource := resources[head.Kind]
		if resource == "" {
			s.t.Fatalf("no such kind: %q in %s", head.Kind, doc)
		}
		o := kinds[resource]()
		if err := yaml.UnmarshalStrict(doc, o); err != nil {
			s.t.Fatal(err)
		}
		s.fill(o)
		events = append(events, Event{Resource: resource, Object: o})
	}
	return events
}

// fill adds what an API server would.
func (s *stage) fill(o snapshot.Object) {
	o.SetUID(types.UID(o.GetName()))
	switch o := o.(type) {
	case *v1.Pod:
		o.Namespace = "default"
		if o.Spec.SchedulerName == "" {
			o.Spec.SchedulerName = "default-scheduler"
		}
		if len(o.Spec.Containers) == 0 {
			o.Spec.Containers = []v1.Container{{Name: "main"}}
		}
	case *v1.Node:
		if _, ok := o.Status.Allocatable[v1.ResourcePods]; !ok && o.Status.Allocatable != nil {
			o.Status.Allocatable[v1.ResourcePods] = *podLimit
		}
	case *v1.PersistentVolumeClaim, *policyv1.PodDisruptionBudget:
		o.SetNamespace("default")
	case *v1.PersistentVolume:
		o.Status.Phase = v1.VolumeAvailable
	}
}

func (s *stage) tell(e Event) {
	if p, ok := e.Object.(*v1.Pod); ok {
		if e.Deleted {
			delete(s.pods, p.Name)
		} else {
			s.pods[p.Name] = p
		}
	}
	s.core.apply([]Event{e}, s.now.UnixNano())
}

// run decides all that is ready and does what is asked for.
func (s *stage) run() {
	for range 1000 {
		busy := s.core.step(context.Background())
		for _, b := range s.core.takeBindings(100, s.now.UnixNano()) {
			s.bind(b)
			busy = true
		}
		busy = s.obey() || busy
		if !busy {
			return
		}
	}
	s.t.Fatal("the core does not come to rest")
}

func (s *stage) bind(b Binding) {
	if s.bindFails {
		s.core.bound(b.Pod.UID, errors.New("bind failed"), s.now.UnixNano())
		return
	}
	next := *s.pods[b.Pod.Name]
	next.Spec.NodeName = b.Node
	delete(s.messages, next.Name)
	s.bindVolumes(b.Volumes)
	s.core.bound(b.Pod.UID, nil, s.now.UnixNano())
	s.tell(Event{Resource: "pods", Object: &next})
}

func (s *stage) bindVolumes(matches []volumes.Match) {
	for _, m := range matches {
		v, c := m.Volume.DeepCopy(), m.Claim.DeepCopy()
		v.Spec.ClaimRef = &v1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
		c.Spec.VolumeName, c.Status.Phase = v.Name, v1.ClaimBound
		s.tell(Event{Resource: "persistentvolumes", Object: v})
		s.tell(Event{Resource: "persistentvolumeclaims", Object: c})
	}
}

// obey does the writes besides binds.
func (s *stage) obey() (any bool) {
	out := &s.core.out
	for _, c := range out.conditions {
		s.messages[c.Pod.Name] = c.Message
		next := *s.pods[c.Pod.Name]
		next.Status.NominatedNodeName = c.Nominated
		s.tell(Event{Resource: "pods", Object: &next})
	}
	out.conditions, out.notices = nil, nil
	if s.writesFail {
		return s.fail()
	}
	for _, p := range out.provisions {
		s.bindVolumes(p.Volumes)
		for _, c := range p.Claims {
			next := c.DeepCopy()
			next.Annotations = map[string]string{"volume.kubernetes.io/selected-node": p.Node}
			s.tell(Event{Resource: "persistentvolumeclaims", Object: next})
		}
		s.messages[p.Pod.Name] = "volumes are made on " + p.Node
		any = true
	}
	out.provisions = nil
	if s.evictLate {
		return any
	}
	for _, e := range out.evictions {
		s.tell(Event{Resource: "pods", Deleted: true, Object: e.Victim})
		any = true
	}
	out.evictions = nil
	return any
}

// fail answers that evictions and provisions were not written.
func (s *stage) fail() (any bool) {
	out := &s.core.out
	any = len(out.provisions)+len(out.evictions) > 0
	for _, p := range out.provisions {
		s.core.provisionFailed(p.Pod, s.now.UnixNano())
	}
	for i := range out.evictions {
		s.core.evictFailed(&out.evictions[i], s.now.UnixNano())
	}
	out.provisions, out.evictions = nil, nil
	return any
}

// table prints the pods: where they are or why not.
func (s *stage) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 2, 2, 2, ' ', 0)
	names := make([]string, 0, len(s.pods))
	for name := range s.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p := s.pods[name]
		state, detail := "bound", p.Spec.NodeName
		if p.Spec.NodeName == "" {
			state, detail = "unclaimed", "-"
			if e := s.core.queue.Get(p.UID); e != nil {
				state, detail = e.State().String(), "-"
			}
			if n := p.Status.NominatedNodeName; n != "" {
				detail = "room on " + n
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, state, detail, s.messages[name])
	}
	if err := w.Flush(); err != nil {
		s.t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

var podLimit = resource.NewQuantity(110, resource.DecimalSI)
