package replicaset

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// burst is how many pods one round creates or deletes at most.
const burst = 500

func init() {
	fields := []string{"spec.replicas", "spec.minReadySeconds", "spec.selector", "spec.template", "status.conditions"}
	children := []reconcile.Kind{{APIVersion: "v1", Kind: "Pod", Facts: pods.Facts}}
	sdk.Controller("ReplicaSet", controller{}, reconcile.Kind{APIVersion: "apps/v1", Kind: "ReplicaSet", Fields: fields}, children,
		sdk.Describe("Keeps as many pods of a template as a ReplicaSet says."))
	sdk.Controller("ReplicationController", controller{}, reconcile.Kind{APIVersion: "v1", Kind: "ReplicationController", Fields: fields}, children,
		sdk.Describe("Keeps as many pods of a template as a ReplicationController says."))
}

// podOf makes a pod of the template.
const podOf = `{"apiVersion":"v1","kind":"Pod"}`

type controller struct{}

// set is the parent, read once.
type set struct {
	*reconcile.Request
	replicas, minReady int
	// terminating are the set's pods that are about to go.
	terminating        int64
	selector, template facts.Selector
}

func (controller) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	s, err := read(r)
	if err != nil {
		return out, err
	}
	active := s.claim(&out)
	out.Status, out.RequeueAfter, out.Why = s.status(active)
	if r.Parent.Deleted != 0 {
		return out, nil
	}
	switch missing := s.replicas - len(active); {
	case missing > 0:
		out.Create = []reconcile.Creation{{From: "spec.template", Object: podOf, Count: int64(min(missing, burst))}}
	case missing < 0:
		out.Delete = surplus(active, min(-missing, burst), r.Now)
	}
	return out, nil
}

func read(r *reconcile.Request) (s *set, err error) {
	s = &set{Request: r, replicas: 1}
	if n, ok := r.Parent.Field("spec.replicas").Number(); ok {
		s.replicas = int(n)
	}
	if n, ok := r.Parent.Field("spec.minReadySeconds").Number(); ok {
		s.minReady = int(n)
	}
	if r.Parent.Kind == "ReplicationController" {
		s.selector = s.equal(r.Parent.Field("spec.selector"))
	} else if s.selector, err = facts.LabelSelector(r.Parent.Field("spec.selector"), r.Symbols); err != nil {
		return nil, errors.New("spec.selector: " + err.Error())
	}
	if len(s.selector.Reqs) == 0 {
		s.selector.Present = false // an empty one would match all pods
	}
	s.template = s.equal(r.Parent.Field("spec.template").Object("metadata").Object("labels"))
	return s, nil
}

// equal selects what has all these labels.
func (s *set) equal(labels sdk.Config) facts.Selector {
	selector := facts.Selector{Present: true}
	for key, v := range labels.All {
		value, _ := v.Text()
		selector.Reqs = append(selector.Reqs, facts.Requirement{
			Key: s.Symbols.Intern(key), Values: []facts.Symbol{s.Symbols.Intern(value)},
		})
	}
	return selector
}

// claim adopts and releases, and returns the active pods that are the set's.
func (s *set) claim(out *reconcile.Result) (active []pods.Pod) {
	active = make([]pods.Pod, 0, len(s.Children))
	for _, child := range s.Children {
		p := pods.Read(child)
		matches := s.selector.Matches(s.Symbols, child.Labels.Pairs)
		if !p.Active() {
			if matches && p.Deleted != 0 && p.Phase != "Succeeded" && p.Phase != "Failed" && child.Controller() == s.Parent.UID {
				s.terminating++
			}
			continue
		}
		switch owner := child.Controller(); {
		case owner == s.Parent.UID && matches:
			active = append(active, p)
		case owner == s.Parent.UID && s.Parent.Deleted == 0:
			out.Release = append(out.Release, child.UID)
		case owner == "" && matches && s.Parent.Deleted == 0:
			out.Adopt = append(out.Adopt, child.UID)
			active = append(active, p)
		}
	}
	return active
}

// status counts. A pod that is ready but not yet for long enough makes the
// controller ask again when it will be.
func (s *set) status(active []pods.Pod) (status string, after time.Duration, why []string) {
	var labelled, ready, available int64
	for i := range active {
		p := &active[i]
		if s.template.Matches(s.Symbols, p.Labels.Pairs) {
			labelled++
		}
		if p.Ready {
			ready++
		}
		ok, wait := p.Available(int64(s.minReady), s.Now)
		if ok {
			available++
		} else if wait > 0 && (after == 0 || time.Duration(wait) < after) {
			after = time.Duration(wait)
		}
	}
	j := &json.Writer{}
	j.Open('{').Key("replicas").Int(int64(len(active))).Key("fullyLabeledReplicas").Int(labelled)
	j.Key("readyReplicas").Int(ready).Key("availableReplicas").Int(available)
	j.Key("observedGeneration").Int(s.Parent.Generation).Key("terminatingReplicas").Int(s.terminating)
	s.conditions(j, len(active))
	if len(active) != s.replicas || available < int64(len(active)) {
		n := strconv.Itoa
		why = []string{n(len(active)) + " of " + n(s.replicas) + " pods exist, " + n(int(ready)) + " are ready, " + n(int(available)) + " available"}
	}
	return string(j.Close('}').Bytes()), after, why
}

// conditions are those that the parent has, and ReplicaFailure while pods are
// missing that the host refused to create.
func (s *set) conditions(j *json.Writer, active int) {
	j.Key("conditions").Open('[')
	failing, told := s.Refused != "" && active < s.replicas, false
	for _, c := range s.Parent.Field("status.conditions").Items() {
		failure := c.String("type", "") == "ReplicaFailure"
		if failure && !failing {
			continue
		}
		told = told || failure
		j.Value(c.JSON())
	}
	if failing && !told {
		j.Open('{').Key("type").Text("ReplicaFailure").Key("status").Text("True").Key("lastTransitionTime").Text(pods.Time(s.Now))
		j.Key("reason").Text("FailedCreate").Key("message").Text(strings.TrimPrefix(s.Refused, "Error creating: ")).Close('}')
	}
	j.Close(']')
}

// surplus names the n pods that are missed least.
func surplus(active []pods.Pod, n int, now int64) (gone []reconcile.Deletion) {
	if n < len(active) {
		pods.SortByLoss(active, now)
	}
	for i := range active[:n] {
		gone = append(gone, reconcile.Deletion{UID: active[i].UID})
	}
	return gone
}
