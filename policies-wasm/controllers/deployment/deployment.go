// Package deployment rolls Deployments out: it makes a ReplicaSet for each
// template, and moves replicas from the old ones to the new one.
package deployment

import (
	"errors"
	"sort"
	"strconv"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

const (
	revisionKey = "deployment.kubernetes.io/revision"
	historyKey  = "deployment.kubernetes.io/revision-history"
	desiredKey  = "deployment.kubernetes.io/desired-replicas"
	maxKey      = "deployment.kubernetes.io/max-replicas"
	hashKey     = "pod-template-hash"
	appliedKey  = "kubectl.kubernetes.io/last-applied-configuration"
	rollbackKey = "deprecated.deployment.rollback.to"
)

func init() {
	sdk.Controller("Deployment", controller{},
		reconcile.Kind{
			APIVersion: "apps/v1", Kind: "Deployment", Facts: []string{abi.FactTemplateHash, abi.FactTemplateID}, Writes: []string{"patch"},
			Fields: []string{
				"spec.replicas", "spec.paused", "spec.strategy", "spec.minReadySeconds", "spec.revisionHistoryLimit",
				"spec.progressDeadlineSeconds", "spec.selector", "spec.template.metadata", "spec.template.spec", "status",
			},
		},
		[]reconcile.Kind{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Facts: []string{abi.FactTemplateID}, Writes: []string{"create", "patch", "delete"},
			Fields: []string{"spec.replicas", "spec.minReadySeconds", "spec.template.metadata", "spec.template.spec", "status"},
		}},
		sdk.Describe("Rolls Deployments out: a ReplicaSet for each template, and replicas moved from the old ones to the new one."))
}

type controller struct{}

// deployment is the parent, read once, and what becomes of its ReplicaSets.
//
// It is large because each rule of Kubernetes' rollouts is a method of its own
// over what was read once.
type deployment struct {
	*reconcile.Request
	out                          *reconcile.Result
	replicas, minReady, deadline int64
	history                      int64 // -1 keeps all
	surge, unavailable           int64
	paused, recreate             bool
	status                       sdk.Config
	conditions                   []condition
	collisions                   int64
	hasCollisions                bool
	sets                         []*set
	// newest is the ReplicaSet of the template as it is, nil if there is none.
	newest *set
}

// set is a ReplicaSet, and what is to be changed of it.
type set struct {
	*reconcile.Object
	name                                     string
	replicas, has, ready, available, leaving int64
	revision                                 int64
	observed                                 bool
	failure                                  *condition
	created                                  int64
	annotate                                 map[string]string
	scaled                                   bool
	minReady                                 int64
	setMinReady                              bool
}

func (controller) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	d, err := read(r, &out)
	if err != nil {
		return out, err
	}
	if d.Parent.Deleted != 0 {
		if d.claim() {
			d.find()
			d.tellFound()
			d.writeStatus(false)
		}
		return out, nil
	}
	if !d.claim() {
		out.Events = append(out.Events, reconcile.Event{Type: "Warning", Reason: "SelectingAll", Message: "This deployment is selecting all pods. A non-empty selector is required."})
		return out, nil
	}
	d.find()
	d.tellPause()
	switch {
	case d.paused:
		d.keepNewest()
		d.scale()
		d.cleanUp()
		d.writeStatus(false)
	case d.isScaling():
		d.keepNewest()
		d.scale()
		d.out.Step = true // then the roll-out goes on
		d.writeStatus(false)
	case d.recreate:
		d.recreateAll()
	default:
		d.roll()
	}
	d.write()
	return out, nil
}

func read(r *reconcile.Request, out *reconcile.Result) (*deployment, error) {
	d := &deployment{Request: r, out: out, replicas: 1, deadline: -1, history: -1, status: r.Parent.Field("status")}
	for _, f := range [...]struct {
		path string
		to   *int64
	}{
		{"spec.replicas", &d.replicas}, {"spec.minReadySeconds", &d.minReady},
		{"spec.progressDeadlineSeconds", &d.deadline}, {"spec.revisionHistoryLimit", &d.history},
	} {
		if n, ok := r.Parent.Field(f.path).Number(); ok {
			*f.to = int64(n)
		}
	}
	if d.deadline == 1<<31-1 {
		d.deadline = -1
	}
	if d.history == 1<<31-1 {
		d.history = -1
	}
	d.paused = r.Parent.JSON("spec.paused") == "true"
	strategy := r.Parent.Field("spec.strategy")
	d.recreate = strategy.String("type", "") == "Recreate"
	if !d.recreate {
		if err := d.readBounds(strategy.Object("rollingUpdate")); err != nil {
			return nil, err
		}
	}
	if n, ok := d.status.Object("collisionCount").Number(); ok {
		d.collisions, d.hasCollisions = int64(n), true
	}
	d.conditions = readConditions(d.status.Object("conditions"))
	return d, nil
}

func (d *deployment) readBounds(c sdk.Config) (err error) {
	if d.surge, err = part(c.Object("maxSurge"), d.replicas, true); err != nil {
		return err
	}
	if d.unavailable, err = part(c.Object("maxUnavailable"), d.replicas, false); err != nil {
		return err
	}
	if d.surge == 0 && d.unavailable == 0 {
		d.unavailable = 1
	}
	d.unavailable = min(d.unavailable, d.replicas)
	return nil
}

// part is a number, or a percentage of all; a quarter where nothing is said.
func part(c sdk.Config, all int64, up bool) (int64, error) {
	if n, ok := c.Number(); ok {
		return int64(n), nil
	}
	text, ok := c.Text()
	if !ok {
		text = "25%"
	}
	percent := int64(-1)
	if n := len(text); n > 1 && text[n-1] == '%' {
		if v, err := strconv.ParseInt(text[:n-1], 10, 32); err == nil {
			percent = v
		}
	}
	if percent < 0 {
		return 0, errors.New("spec.strategy.rollingUpdate: " + text + " is neither a number nor a percentage")
	}
	if up {
		return (percent*all + 99) / 100, nil
	}
	return percent * all / 100, nil
}

func readSet(o *reconcile.Object) *set {
	s := &set{Object: o, name: o.Name, replicas: 1, created: o.Created}
	number := func(c sdk.Config) int64 { n, _ := c.Number(); return int64(n) }
	if n, ok := o.Field("spec.replicas").Number(); ok {
		s.replicas = int64(n)
	}
	s.minReady = number(o.Field("spec.minReadySeconds"))
	status := o.Field("status")
	s.has, s.ready, s.available = number(status.Object("replicas")), number(status.Object("readyReplicas")), number(status.Object("availableReplicas"))
	s.leaving = number(status.Object("terminatingReplicas"))
	s.observed = number(status.Object("observedGeneration")) >= o.Generation
	s.revision = s.number(revisionKey)
	for _, c := range readConditions(status.Object("conditions")) {
		if c.kind == "ReplicaFailure" && c.status == "True" {
			s.failure = &c
		}
	}
	return s
}

// annotation is as it is to be.
func (s *set) annotation(key string) string {
	if value, ok := s.annotate[key]; ok {
		return value
	}
	if s.Object == nil {
		return ""
	}
	value, _ := s.Annotations.Get(key)
	return value
}

func (s *set) number(key string) int64 {
	n, _ := strconv.ParseInt(s.annotation(key), 10, 64)
	return n
}

func (s *set) note(key, value string) {
	if s.annotation(key) == value {
		return
	}
	if s.annotate == nil {
		s.annotate = map[string]string{}
	}
	s.annotate[key] = value
}

// claim takes ReplicaSets in that the selector matches, and lets others go, unless
// the Deployment is going itself; it is false for a selector of everything.
func (d *deployment) claim() bool {
	selector, err := facts.LabelSelector(d.Parent.Field("spec.selector"), d.Symbols)
	if err != nil || len(selector.Reqs) == 0 {
		return false
	}
	going := d.Parent.Deleted != 0
	for _, o := range d.ChildrenOf("ReplicaSet") {
		matches := selector.Matches(d.Symbols, o.Labels.Pairs)
		switch owner := o.Controller(); {
		case owner == d.Parent.UID && matches:
			d.sets = append(d.sets, readSet(o))
		case owner == d.Parent.UID && !going:
			d.out.Release = append(d.out.Release, o.UID)
		case owner == "" && matches && !going && o.Deleted == 0:
			d.out.Adopt = append(d.out.Adopt, o.UID)
			d.sets = append(d.sets, readSet(o))
		}
	}
	return true
}

// find orders the ReplicaSets by age, and finds that of the template: the eldest.
func (d *deployment) find() {
	sort.Slice(d.sets, func(i, j int) bool {
		a, b := d.sets[i], d.sets[j]
		if a.created != b.created {
			return a.created < b.created
		}
		return a.name < b.name
	})
	id, _ := d.Parent.Field(abi.FactTemplateID).Text()
	for _, s := range d.sets {
		if one, _ := s.Field(abi.FactTemplateID).Text(); one == id {
			d.newest = s
			return
		}
	}
}

// old are all ReplicaSets but the newest.
func (d *deployment) old() (list []*set) {
	for _, s := range d.sets {
		if s != d.newest {
			list = append(list, s)
		}
	}
	return list
}

func (d *deployment) wanted() (n int64) {
	for _, s := range d.sets {
		n += s.replicas
	}
	return n
}

// present is how many pods there are or are to be: those that a ReplicaSet has too
// many are there until it has deleted them.
func (d *deployment) present() (n int64) {
	for _, s := range d.sets {
		n += max(s.replicas, s.has)
	}
	return n
}

// available is how many available pods are there to stay.
func (d *deployment) available() (n int64) {
	for _, s := range d.sets {
		n += s.staying()
	}
	return n
}

// staying is how many available pods the ReplicaSet keeps: its status counts
// those that are too many until they are gone.
func (s *set) staying() int64 { return min(s.available, s.replicas) }

// noteSizes says of a ReplicaSet for how many replicas in all it was scaled.
func (d *deployment) noteSizes(s *set) {
	s.note(desiredKey, strconv.FormatInt(d.replicas, 10))
	s.note(maxKey, strconv.FormatInt(d.replicas+d.surge, 10))
}

// resize gives a ReplicaSet so many replicas, and says so.
func (d *deployment) resize(s *set, replicas int64) bool {
	if s.replicas == replicas {
		return false
	}
	d.noteSizes(s)
	d.tellScaled(s.name, s.replicas, replicas)
	s.replicas, s.scaled = replicas, true
	return true
}

func (d *deployment) tellScaled(name string, from, to int64) {
	way := "down"
	if to > from {
		way = "up"
	}
	d.out.Events = append(d.out.Events, reconcile.Event{
		Type: "Normal", Reason: "ScalingReplicaSet",
		Message: "Scaled " + way + " replica set " + name + " from " + strconv.FormatInt(from, 10) + " to " + strconv.FormatInt(to, 10),
	})
}

// write changes the ReplicaSets that are to be other than they are.
func (d *deployment) write() {
	for _, s := range d.sets {
		if !s.scaled && !s.setMinReady && len(s.annotate) == 0 {
			continue
		}
		j := (&json.Writer{}).Open('{')
		if len(s.annotate) > 0 {
			j.Key("metadata").Open('{').Key("annotations").Open('{')
			for _, key := range sorted(s.annotate) {
				j.Key(key).Text(s.annotate[key])
			}
			j.Close('}').Close('}')
		}
		if s.scaled || s.setMinReady {
			j.Key("spec").Open('{').Key("replicas").Int(s.replicas).Key("minReadySeconds").Int(s.minReady).Close('}')
		}
		d.out.Patch = append(d.out.Patch, reconcile.Patch{UID: s.UID, Patch: string(j.Close('}').Bytes())})
	}
}

func sorted(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
