package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

// guest answers what decide says.
type guest struct {
	decide func(parent *Object, children []Object) (*abi.ReconcileResult, error)
	// related are kinds that it looks at besides, and besides what it found.
	related []Kind
	besides func(related []Object)
	// gone: it is asked about parents that are gone.
	gone bool
	// seeded: it is given seeds, of which it is told.
	seeded bool
	seeds  func(seed uint64)
	// parentFacts are facts of the parent.
	parentFacts []string
}

func (g *guest) Name() string { return "Test" }
func (g *guest) Parent() Kind {
	return Kind{APIVersion: "apps/v1", Kind: "ReplicaSet", Fields: []string{"spec.replicas", "spec.template", "status.replicas"}, Facts: g.parentFacts, Gone: g.gone}
}
func (g *guest) Children() []Kind {
	return []Kind{{APIVersion: "v1", Kind: "Pod", Fields: []string{"status.phase"}, Writes: []string{"create", "delete", "patch"}}}
}
func (g *guest) Related() []Kind { return g.related }
func (g *guest) Seeded() bool    { return g.seeded }
func (g *guest) Reconcile(_ context.Context, in *Input) (*abi.ReconcileResult, error) {
	if g.besides != nil {
		g.besides(in.Related)
	}
	if g.seeds != nil {
		g.seeds(in.Seed)
	}
	return g.decide(&in.Parent, in.Children)
}

// cluster is a store with a driver on it, which writes past the API.
type cluster struct {
	t      *testing.T
	store  *store.Store
	mu     sync.Mutex
	made   int
	events []string
	said   []string // in full
	notes  []string
	// denied is what the guest's ServiceAccount may not, as "verb resource".
	denied string
	// sample is how many answers there are to one that is checked.
	sample uint64
	// after is what somebody else does after each commit.
	after func()
	// takes is how many writes a commit may have; 0 is any number.
	takes int
}

func (c *cluster) May(_ context.Context, verb, resource, subresource, namespace, _ string) error {
	if subresource != "" {
		resource += "/" + subresource
	}
	if everywhere := verb + " " + resource + " everywhere"; namespace == "" && everywhere == c.denied {
		return errors.New("cannot " + everywhere)
	}
	if verb+" "+resource == c.denied || verb == "update" && "patch "+resource == c.denied {
		return fmt.Errorf("cannot %s %s", verb, resource)
	}
	return nil
}

func (c *cluster) note(_ slog.Level, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, message)
}

func (c *cluster) broke(rule, message string) { c.note(slog.LevelWarn, rule+": "+message) }

func (c *cluster) Begin() Transaction { return &tx{cluster: c} }

// tx gathers writes past the API.
type tx struct {
	*cluster
	ops []store.Op
}

func keyOf(resource string, o store.Object) store.Key {
	return store.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (x *tx) Get(k store.Key) (store.Object, bool) {
	for i := range x.ops {
		if x.ops[i].Key == k {
			return x.ops[i].Object, x.ops[i].Kind != store.Delete
		}
	}
	return x.store.Get(k)
}

func (x *tx) Create(_ context.Context, resource string, o store.Object) (store.Object, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if o.GetName() == "" {
		x.made++
		o.SetName(fmt.Sprintf("%s%d", o.GetGenerateName(), x.made))
	}
	o.SetUID(types.UID("uid-" + o.GetName()))
	x.ops = append(x.ops, store.Op{Kind: store.Create, Key: keyOf(resource, o), Object: o})
	return o, nil
}

func (x *tx) Modify(_ context.Context, resource, _, namespace, name string, change func(store.Object) (store.Object, error)) error {
	k := store.Key{Resource: resource, Namespace: namespace, Name: name}
	have, ok := x.Get(k)
	if !ok {
		return &store.Error{Key: k, Kind: store.ErrNotFound}
	}
	next, err := change(have)
	if err != nil || next == have {
		return err
	}
	rev, err := strconv.ParseInt(have.GetResourceVersion(), 10, 64)
	if err != nil {
		return err
	}
	for i := range x.ops {
		if x.ops[i].Key == k {
			x.ops[i].Object = next
			return nil
		}
	}
	x.ops = append(x.ops, store.Op{Kind: store.Update, Key: k, Object: next, Expect: rev})
	return nil
}

func (x *tx) Delete(_ context.Context, resource string, o store.Object, _ *metav1.DeleteOptions) error {
	x.ops = append(x.ops, store.Op{Kind: store.Delete, Key: keyOf(resource, o)})
	return nil
}

func (x *tx) Commit(ctx context.Context) ([]store.Object, error) {
	if x.takes > 0 && len(x.ops) > x.takes {
		return nil, &store.Error{Key: x.ops[0].Key, Kind: store.ErrTooLarge}
	}
	_, stored, err := x.store.Commit(ctx, x.ops...)
	if x.after != nil {
		x.after()
	}
	return stored, err
}

func (x *tx) Rollback() {}
func (x *tx) Len() int  { return len(x.ops) }

func (c *cluster) Event(_ store.Object, kind, reason, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, kind+" "+reason)
	c.said = append(c.said, reason+": "+message)
}

func (c *cluster) put(resource string, o store.Object) {
	c.t.Helper()
	key := store.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
	if _, _, err := c.store.Commit(c.t.Context(), store.Op{Kind: store.Create, Key: key, Object: o}); err != nil {
		c.t.Fatal(err)
	}
}

// update changes what is in the store, as somebody else would.
func (c *cluster) update(resource, name string, change func(store.Object)) {
	c.t.Helper()
	key := store.Key{Resource: resource, Namespace: "default", Name: name}
	_, err := c.store.Update(c.t.Context(), key, func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(store.Object)
		change(next)
		return next, nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// pods are the names of all pods, with their controller's.
func (c *cluster) pods() []string {
	c.t.Helper()
	list, err := c.store.List("pods", "", store.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, o := range list.Items {
		owner := "nobody"
		if ref := metav1.GetControllerOf(o); ref != nil {
			owner = ref.Name
		}
		names = append(names, o.GetName()+" of "+owner)
	}
	sort.Strings(names)
	return names
}

var kinds = map[string]Type{
	"apps/v1 ReplicaSet":  {Resource: "replicasets.apps", New: func() store.Object { return &appsv1.ReplicaSet{} }},
	"v1 Pod":              {Resource: "pods", New: func() store.Object { return &v1.Pod{} }},
	"v1 PersistentVolume": {Resource: "persistentvolumes", New: func() store.Object { return &v1.PersistentVolume{} }, Cluster: true},
	"v1 ConfigMap":        {Resource: "configmaps", New: func() store.Object { return &v1.ConfigMap{} }},
}

// drive runs a driver of g over what fill makes, lets it come to rest, and
// shows the cluster to check.
func drive(t *testing.T, g *guest, fill, check func(*cluster)) {
	t.Helper()
	driveOver(t, g, func(c *cluster) Objects { return c.store }, fill, check)
}

// driveOver is drive of a driver that sees the store as over shows it.
func driveOver(t *testing.T, g *guest, over func(*cluster) Objects, fill, check func(*cluster)) {
	t.Helper()
	driveAs(t, g, func(c *cluster, cfg *Config) { cfg.Objects = over(c) }, fill, check)
}

// driveAs is drive of a driver that is configured otherwise.
func driveAs(t *testing.T, g *guest, configure func(*cluster, *Config), fill, check func(*cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		byController := func(o store.Object) []string {
			if ref := metav1.GetControllerOf(o); ref != nil {
				return []string{string(ref.UID)}
			}
			return nil
		}
		orphans := func(o store.Object) []string {
			if metav1.GetControllerOf(o) != nil {
				return nil
			}
			return []string{o.GetNamespace()}
		}
		c := &cluster{t: t, store: storetest.Open(t, store.Options{Indexes: map[string]map[string]store.IndexFunc{
			"pods": {IndexByOwner: byController, IndexOrphans: orphans, IndexLabel: podLabels, IndexClaims: podClaimIndex},
		}})}
		fill(c)
		cfg := Config{
			Guest: g, Objects: c.store, Writer: c, Access: c, Note: c.note, Broke: c.broke, Sample: c.sample, Recorder: c, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Types: func(apiVersion, kind string) (Type, bool) { found, ok := kinds[apiVersion+" "+kind]; return found, ok },
		}
		configure(c, &cfg)
		d, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		check(c)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func set(name string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}},
		},
	}
}

func pod(name, app string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": app}}}
}

// keep is the decision of a ReplicaSet in short.
func keep(parent *Object, children []Object) (*abi.ReconcileResult, error) {
	var want int
	if err := json.Unmarshal(parent.Fields[0], &want); err != nil {
		return nil, err
	}
	out := &abi.ReconcileResult{Status: json.RawMessage(fmt.Sprintf(`{"replicas":%d}`, len(children)))}
	for _, c := range children {
		if metav1.GetControllerOf(c.Object) == nil {
			out.Adopt = append(out.Adopt, string(c.Object.GetUID()))
		}
	}
	if missing := want - len(children); missing > 0 {
		out.Create = []abi.Creation{{Count: int64(missing), Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"}}}`)}}
	}
	for i := want; i < len(children); i++ {
		out.Delete = append(out.Delete, abi.Deletion{UID: string(children[i].Object.GetUID())})
	}
	return out, nil
}
