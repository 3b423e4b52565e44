package policytest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Object is a parent, a child or a related object of a controller.
type Object struct {
	APIVersion, Kind, Namespace, Name, UID string
	Generation, Created, Deleted           int64
	Labels, Annotations                    map[string]string
	// Owner is the UID of the owner that controls it.
	Owner           string
	Finalizers      []string
	ResourceVersion string
	// Fields are JSON by path, such as "spec.replicas": "3".
	Fields map[string]string
	// Pod is given where the kind asks for the fact "pod".
	Pod *reconcile.PodFacts
}

// ControllerCase is one parent and what should become of it.
type ControllerCase struct {
	Name              string
	Now               int64
	Parent            Object
	Children, Related []Object
	// Refused is what the host refused of the answer before.
	Refused string
	// Seed is given to controllers that ask for one.
	Seed uint64
	// Creates is how many children are to be made.
	Creates int64
	// Objects are those to be made, as JSON and in their order; they are looked
	// at where some are given.
	Objects []string
	// Delete, Adopt and Release are UIDs, in their order.
	Delete, Adopt, Release []string
	// Status is JSON; it is looked at where it is given.
	Status string
	// RequeueAfter is looked at where it is given.
	RequeueAfter time.Duration
}

// ControllerTable is cases for a controller.
type ControllerTable = Cases[ControllerCase]

// RunController opens the controller and asks about each case.
func RunController(t *testing.T, table ControllerTable) {
	t.Helper()
	runCases(t, &table, AskedOfController)
}

func (c *ControllerCase) name() string { return c.Name }

func (c *ControllerCase) run(t *testing.T, in *guest.Instance, tape *tape) {
	t.Helper()
	input := encodeReconcile(c)
	out, err := in.Reconcile(input)
	if err == nil {
		err = in.Unchanged(input)
	}
	if err != nil {
		t.Fatal(err)
	}
	tape.bytes(abi.FuncReconcile, input, out)
	got, err := abi.ReadReconcileResult(out)
	if err != nil {
		t.Fatal(err)
	}
	creates := int64(0)
	for _, made := range got.Create {
		creates += made.Count
	}
	if creates != c.Creates {
		t.Errorf("Reconcile creates %d, want %d", creates, c.Creates)
	}
	c.objects(t, got.Create)
	if after := time.Duration(got.RequeueAfterNanos); c.RequeueAfter != 0 && after != c.RequeueAfter {
		t.Errorf("Reconcile asks again in %s, want %s", after, c.RequeueAfter)
	}
	for _, list := range []struct {
		what      string
		got, want []string
	}{{"deletes", deletions(got.Delete), c.Delete}, {"adopts", got.Adopt, c.Adopt}, {"releases", got.Release, c.Release}} {
		if !slices.Equal(list.got, list.want) {
			t.Errorf("Reconcile %s %q, want %q", list.what, list.got, list.want)
		}
	}
	if c.Status != "" && !sameJSON(got.Status, c.Status) {
		t.Errorf("Reconcile gives the status %s, want %s", got.Status, c.Status)
	}
}

// objects compares what is made.
func (c *ControllerCase) objects(t *testing.T, made []abi.Creation) {
	t.Helper()
	if len(c.Objects) > 0 && len(made) != len(c.Objects) {
		t.Errorf("Reconcile makes %d objects, want %d", len(made), len(c.Objects))
		return
	}
	for i, want := range c.Objects {
		if !sameJSON(made[i].Object, want) {
			t.Errorf("Reconcile makes %s, want %s", made[i].Object, want)
		}
	}
}

func sameJSON(got json.RawMessage, want string) bool {
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		return false
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func deletions(list []abi.Deletion) (uids []string) {
	for _, d := range list {
		uids = append(uids, d.UID)
	}
	return uids
}

func encodeReconcile(c *ControllerCase) []byte {
	e := newEncoder()
	parent, children, related := e.controlled(&c.Parent), e.controlledAll(c.Children), e.controlledAll(c.Related)
	refused := offset(0)
	if c.Refused != "" {
		refused = e.CreateString(c.Refused)
	}
	fb.ReconcileInputStart(e.Builder)
	fb.ReconcileInputAddNow(e.Builder, c.Now)
	fb.ReconcileInputAddParent(e.Builder, parent)
	fb.ReconcileInputAddChildren(e.Builder, children)
	fb.ReconcileInputAddRelated(e.Builder, related)
	if refused != 0 {
		fb.ReconcileInputAddRefused(e.Builder, refused)
	}
	fb.ReconcileInputAddSeed(e.Builder, c.Seed)
	e.Finish(fb.ReconcileInputEnd(e.Builder))
	return e.FinishedBytes()
}

func (e *encoder) controlledAll(list []Object) offset {
	var items []offset
	for i := range list {
		items = append(items, e.controlled(&list[i]))
	}
	return e.CreateVectorOfTables(items)
}

func (e *encoder) controlled(o *Object) offset {
	b, apiVersion, kind := e.Builder, e.CreateString(o.APIVersion), e.CreateString(o.Kind)
	namespace, name, uid := e.CreateString(o.Namespace), e.CreateString(o.Name), e.CreateString(o.UID)
	labels, annotations, fields := e.kvs(o.Labels), e.kvs(o.Annotations), e.fields(o.Fields)
	owner := Controller{UID: o.Owner}
	if o.Owner != "" {
		owner.Kind = "Parent"
	}
	owners, finalizers, version := e.owners(&owner), e.names(o.Finalizers), e.CreateString(o.ResourceVersion)
	pod := e.podFacts(o.Pod)
	fb.ControlObjectStart(b)
	fb.ControlObjectAddApiVersion(b, apiVersion)
	fb.ControlObjectAddKind(b, kind)
	fb.ControlObjectAddNamespace(b, namespace)
	fb.ControlObjectAddName(b, name)
	fb.ControlObjectAddUid(b, uid)
	fb.ControlObjectAddGeneration(b, o.Generation)
	fb.ControlObjectAddCreated(b, o.Created)
	fb.ControlObjectAddDeleted(b, o.Deleted)
	fb.ControlObjectAddLabels(b, labels)
	fb.ControlObjectAddAnnotations(b, annotations)
	fb.ControlObjectAddOwners(b, owners)
	fb.ControlObjectAddFields(b, fields)
	fb.ControlObjectAddFinalizers(b, finalizers)
	fb.ControlObjectAddResourceVersion(b, version)
	if pod != 0 {
		fb.ControlObjectAddPod(b, pod)
	}
	return fb.ControlObjectEnd(b)
}

func (e *encoder) podFacts(p *reconcile.PodFacts) offset {
	if p == nil {
		return 0
	}
	b, phase, node := e.Builder, e.CreateString(p.Phase), e.CreateString(p.NodeName)
	hostname, subdomain, ips := e.CreateString(p.Hostname), e.CreateString(p.Subdomain), e.names(p.IPs)
	fb.PodFactsStart(b)
	fb.PodFactsAddPhase(b, phase)
	fb.PodFactsAddReady(b, p.Ready)
	fb.PodFactsAddReadySince(b, p.ReadySince)
	fb.PodFactsAddNodeName(b, node)
	fb.PodFactsAddRestarts(b, int32(p.Restarts))
	fb.PodFactsAddIps(b, ips)
	fb.PodFactsAddHostname(b, hostname)
	fb.PodFactsAddSubdomain(b, subdomain)
	return fb.PodFactsEnd(b)
}

func (e *encoder) fields(m map[string]string) offset {
	var items []offset
	for _, path := range slices.Sorted(maps.Keys(m)) {
		at, text := e.CreateString(path), e.CreateString(m[path])
		fb.FieldStart(e.Builder)
		fb.FieldAddPath(e.Builder, at)
		fb.FieldAddJson(e.Builder, text)
		items = append(items, fb.FieldEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}
