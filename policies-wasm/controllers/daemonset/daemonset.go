package daemonset

import (
	"errors"
	"sort"
	"strconv"
	"time"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/policies-wasm/controllers/revision"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Labels of a pod.
const (
	revisionLabel   = "controller-revision-hash"
	generationLabel = "pod-template-generation"
)

// templateGeneration is where a DaemonSet of old has its template's generation.
const templateGeneration = "deprecated.daemonset.template.generation"

// required is a pod's node affinity that must hold.
const required = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

// burst is how many pods one round creates at most, and how many it deletes.
const burst = 250

func init() {
	sdk.Controller("DaemonSet", controller{},
		reconcile.Kind{
			APIVersion: "apps/v1", Kind: "DaemonSet", Fields: []string{
				"spec.minReadySeconds", "spec.selector", "spec.updateStrategy", "spec.revisionHistoryLimit",
				"spec.template.metadata.labels", "spec.template.spec.nodeName", "spec.template.spec.nodeSelector",
				"spec.template." + required, "spec.template.spec.tolerations", "spec.template.spec.hostNetwork", "status",
			},
			Facts: []string{"template.hash", "template.revision"},
		},
		[]reconcile.Kind{
			{
				APIVersion: "v1", Kind: "Pod", Fields: []string{required}, Facts: pods.Facts,
				Writes: []string{"create", "patch", "delete"},
			},
			revision.Kind,
		},
		sdk.Related(reconcile.Kind{APIVersion: "v1", Kind: "Node", Fields: []string{"spec.taints"}, By: "cluster"}),
		sdk.Describe("Keeps one pod on each node that a DaemonSet's template fits."))
}

type controller struct{}

// set is the parent, read once, and the answer about it.
type set struct {
	*reconcile.Request
	out reconcile.Result

	selector facts.Selector
	minReady int64
	strategy strategy
	fit      fit
	// hash is the label of pods of the newest revision, generation that of a
	// template's generation, if the set has one.
	hash, generation string
	was              status
	history          history

	// nodes are those of the cluster, by name, and then those that are gone, but
	// have pods.
	nodes []*node
	pods  []*pod
}

type strategy struct {
	rolling                  bool
	maxUnavailable, maxSurge sdk.Config
}

// node is one with the set's pods on it.
type node struct {
	name string
	// run: a pod should be made there. stay: one that is there may stay.
	run, stay bool
	// gone: there is no such node any more.
	gone bool
	// made: by this answer.
	made bool
	pods []*pod
}

type pod struct {
	pods.Pod
	updated bool
	// removed: by this answer.
	removed bool
}

func (controller) Reconcile(r *reconcile.Request) (reconcile.Result, error) {
	if r.Parent.Deleted != 0 {
		return reconcile.Result{}, nil // what it owns may be gone already
	}
	s := &set{Request: r}
	if err := s.read(); err != nil {
		return reconcile.Result{}, err
	}
	if len(s.selector.Reqs) == 0 {
		s.event("Warning", "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return s.out, nil
	}
	s.claimPods()
	if !s.keepHistory() {
		return s.out, nil
	}
	s.place()
	for _, n := range s.nodes {
		s.tend(n)
	}
	switch tended := len(s.out.Create)+len(s.out.Delete) > s.history.deletes; {
	case !s.strategy.rolling:
	case tended:
		s.out.Step = true // nodes come before the roll-out
	default:
		s.roll()
	}
	s.truncate()
	s.writeStatus()
	return s.out, nil
}

func (s *set) read() (err error) {
	p := &s.Parent
	s.minReady = number(p.Field("spec.minReadySeconds"))
	if s.selector, err = facts.LabelSelector(p.Field("spec.selector"), s.Symbols); err != nil {
		return errors.New("spec.selector: " + err.Error())
	}
	update := p.Field("spec.updateStrategy")
	rolling := update.Object("rollingUpdate")
	s.strategy = strategy{update.String("type", "") == "RollingUpdate", rolling.Object("maxUnavailable"), rolling.Object("maxSurge")}
	if text, ok := p.Annotations.Get(templateGeneration); ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			s.generation = strconv.FormatInt(n, 10)
		}
	}
	s.was = readStatus(p.Field("status"))
	return s.fit.read(s)
}

func number(c sdk.Config) int64 {
	n, _ := c.Number()
	return int64(n)
}

// claimPods takes in the pods that the selector matches, and lets others go.
func (s *set) claimPods() {
	s.pods = make([]*pod, 0, len(s.Children))
	for _, o := range s.Children {
		if o.Kind != "Pod" {
			continue
		}
		ours := s.selector.Matches(s.Symbols, o.Labels.Pairs)
		switch owner := o.Controller(); {
		case owner == s.Parent.UID && ours:
		case owner == s.Parent.UID:
			s.out.Release = append(s.out.Release, o.UID)
			continue
		case owner == "" && ours && o.Deleted == 0:
			s.out.Adopt = append(s.out.Adopt, o.UID)
		default:
			continue
		}
		s.pods = append(s.pods, &pod{Pod: pods.Read(o)})
	}
}

// place finds the node of each pod. Pods that ended and are on their way out
// count no more.
func (s *set) place() {
	s.nodes = make([]*node, len(s.Related)) // all are Nodes
	for i, o := range s.Related {
		s.nodes[i] = &node{name: o.Name}
		s.nodes[i].run, s.nodes[i].stay = s.fit.node(o)
	}
	sort.Sort(byName(s.nodes))
	known := s.nodes
	gone := map[string]*node{}
	for _, p := range s.pods {
		p.updated = s.isUpdated(p)
		name := p.target()
		if name == "" || p.Deleted != 0 && p.ended() {
			continue
		}
		n := byName(known).find(name)
		if n == nil {
			n = gone[name]
		}
		if n == nil {
			n = &node{name: name, gone: true}
			s.nodes = append(s.nodes, n)
			gone[name] = n
		}
		n.pods = append(n.pods, p)
	}
	for _, n := range s.nodes {
		sort.Sort(oldest(n.pods))
	}
}

type byName []*node

func (b byName) Len() int           { return len(b) }
func (b byName) Less(i, j int) bool { return b[i].name < b[j].name }
func (b byName) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

func (b byName) find(name string) *node {
	i := sort.Search(len(b), func(i int) bool { return b[i].name >= name })
	if i == len(b) || b[i].name != name {
		return nil
	}
	return b[i]
}

func (p *pod) ended() bool { return p.Phase == "Failed" || p.Phase == "Succeeded" }

// target is the node that the pod is on or made for.
func (p *pod) target() string {
	if p.Node != "" {
		return p.Node
	}
	terms, err := p.Field(required).List("nodeSelectorTerms")
	if err != nil {
		return ""
	}
	for _, term := range terms {
		for _, f := range term.Object("matchFields").Items() {
			if f.String("key", "") != "metadata.name" || f.String("operator", "") != "In" {
				continue
			}
			names := f.Object("values").Items()
			if len(names) != 1 {
				return ""
			}
			name, _ := names[0].Text()
			return name
		}
	}
	return ""
}

// isUpdated tells whether the pod is of the newest template.
func (s *set) isUpdated(p *pod) bool {
	hash, _ := p.Labels.Get(revisionLabel)
	generation, _ := p.Labels.Get(generationLabel)
	return s.hash != "" && hash == s.hash || s.generation != "" && generation == s.generation
}

func (s *set) available(p *pod) bool {
	ok, _ := p.Available(s.minReady, s.Now)
	return ok
}

// oldest sorts those that are on their node to the front, then by age.
type oldest []*pod

func (o oldest) Len() int      { return len(o) }
func (o oldest) Swap(i, j int) { o[i], o[j] = o[j], o[i] }

func (o oldest) Less(i, j int) bool {
	p, q := o[i], o[j]
	if (p.Node == "") != (q.Node == "") {
		return p.Node != ""
	}
	if p.Created != q.Created {
		return p.Created < q.Created
	}
	return p.Name < q.Name
}

// remove deletes a pod, once.
func (s *set) remove(p *pod) {
	if p.Deleted != 0 || p.removed || len(s.out.Delete) >= s.history.deletes+burst {
		return
	}
	p.removed = true
	s.out.Delete = append(s.out.Delete, reconcile.Deletion{UID: p.UID})
}

func (s *set) event(kind, reason, message string) {
	const most = 60 // the host takes 64
	if len(s.out.Events) < most {
		s.out.Events = append(s.out.Events, reconcile.Event{Type: kind, Reason: reason, Message: message})
	}
}

func (s *set) wait(what string) {
	const most = 3
	if len(s.out.Why) < most {
		s.out.Why = append(s.out.Why, what)
	}
}

// later asks again in so many nanoseconds, or sooner.
func (s *set) later(nanos int64) {
	if after := time.Duration(nanos); s.out.RequeueAfter == 0 || after < s.out.RequeueAfter {
		s.out.RequeueAfter = after
	}
}
