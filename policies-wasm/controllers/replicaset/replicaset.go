package replicaset

import (
	"errors"
	"sort"

	"github.com/berth-dev/berth/sdk"
)

// burst is how many pods one round creates or deletes at most.
const burst = 500

func init() {
	sdk.Controller("ReplicaSet", controller{},
		sdk.ObjectKind{APIVersion: "apps/v1", Kind: "ReplicaSet", Fields: []string{
			"spec.replicas", "spec.minReadySeconds", "spec.selector", "spec.template", "status.conditions",
		}},
		[]sdk.ObjectKind{{APIVersion: "v1", Kind: "Pod", Fields: []string{
			"spec.nodeName", "status.phase", "status.conditions", "status.containerStatuses",
		}}},
		sdk.Describe("Keeps as many pods of a template as a ReplicaSet says."))
}

type controller struct{}

// set is the parent, read once.
type set struct {
	*sdk.ReconcileRequest
	replicas, minReady int
	selector, template sdk.Selector
}

func (controller) Reconcile(r *sdk.ReconcileRequest) (out sdk.ReconcileResult, err error) {
	s, err := read(r)
	if err != nil {
		return out, err
	}
	pods := s.claim(&out)
	out.Status, out.RequeueAfter = s.status(pods)
	if r.Parent.Deleted != 0 {
		return out, nil
	}
	switch missing := s.replicas - len(pods); {
	case missing > 0:
		object, err := s.child()
		if err != nil {
			return out, err
		}
		out.Create = []sdk.Creation{{Object: object, Count: int64(min(missing, burst))}}
	case missing < 0:
		out.Delete = surplus(pods, min(-missing, burst), r.Now)
	}
	return out, nil
}

func read(r *sdk.ReconcileRequest) (s *set, err error) {
	s = &set{ReconcileRequest: r, replicas: 1}
	if n, ok := r.Parent.Field("spec.replicas").Number(); ok {
		s.replicas = int(n)
	}
	if n, ok := r.Parent.Field("spec.minReadySeconds").Number(); ok {
		s.minReady = int(n)
	}
	if s.selector, err = sdk.LabelSelector(r.Parent.Field("spec.selector"), r.Symbols); err != nil {
		return nil, errors.New("spec.selector: " + err.Error())
	}
	if len(s.selector.Reqs) == 0 {
		s.selector.Present = false // an empty one would match all pods
	}
	s.template = sdk.Selector{Present: true}
	labels := r.Parent.Field("spec.template").Object("metadata").Object("labels")
	for i, key := range labels.Keys() {
		value, _ := labels.Items()[i].Text()
		s.template.Reqs = append(s.template.Reqs, sdk.Requirement{
			Key: r.Symbols.Intern(key), Values: []sdk.Symbol{r.Symbols.Intern(value)},
		})
	}
	return s, nil
}

// claim adopts and releases, and returns the active pods that are the set's.
func (s *set) claim(out *sdk.ReconcileResult) []pod {
	var pods []pod
	for i := range s.Children {
		child := &s.Children[i]
		p := readPod(child)
		if !p.active() {
			continue
		}
		matches := s.selector.Matches(s.Symbols, child.Labels.Pairs)
		switch owner := child.Controller(); {
		case owner == s.Parent.UID && matches:
			pods = append(pods, p)
		case owner == s.Parent.UID && s.Parent.Deleted == 0:
			out.Release = append(out.Release, child.UID)
		case owner == "" && matches && s.Parent.Deleted == 0:
			out.Adopt = append(out.Adopt, child.UID)
			pods = append(pods, p)
		}
	}
	return pods
}

// status counts. A pod that is ready but not yet for long enough makes the
// controller ask again when it will be.
func (s *set) status(pods []pod) (status string, again int64) {
	var labelled, ready, available int64
	for i := range pods {
		p := &pods[i]
		if s.template.Matches(s.Symbols, p.object.Labels.Pairs) {
			labelled++
		}
		if !p.ready {
			continue
		}
		ready++
		left := p.readySince + int64(s.minReady)*second - s.Now
		if s.minReady == 0 || p.readySince != 0 && left <= 0 {
			available++
			continue
		}
		if left > 0 && (again == 0 || left < again) {
			again = left
		}
	}
	j := &sdk.JSON{}
	j.Open('{').Key("replicas").Int(int64(len(pods))).Key("fullyLabeledReplicas").Int(labelled)
	j.Key("readyReplicas").Int(ready).Key("availableReplicas").Int(available)
	j.Key("observedGeneration").Int(s.Parent.Generation)
	if conditions := s.Parent.JSON("status.conditions"); conditions != "" {
		j.Key("conditions").Value(conditions)
	}
	return string(j.Close('}').Bytes()), again
}

// child is the template as a pod. Only labels, annotations and finalizers of
// its metadata count.
func (s *set) child() (string, error) {
	template := s.Parent.Field("spec.template")
	if template.Object("spec").IsNull() {
		return "", errors.New("spec.template.spec is missing")
	}
	j := &sdk.JSON{}
	j.Open('{').Key("apiVersion").Text("v1").Key("kind").Text("Pod").Key("metadata").Open('{')
	j.Key("generateName").Text(s.Parent.Name + "-")
	meta := template.Object("metadata")
	for _, key := range [...]string{"labels", "annotations", "finalizers"} {
		if meta.Has(key) {
			j.Key(key).Value(meta.Object(key).JSON())
		}
	}
	j.Close('}').Key("spec").Value(template.Object("spec").JSON())
	return string(j.Close('}').Bytes()), nil
}

// surplus names the n pods that are missed least.
func surplus(pods []pod, n int, now int64) []string {
	if n < len(pods) {
		rank(pods)
		sort.Sort(byLoss{pods, now})
	}
	var uids []string
	for i := range pods[:n] {
		uids = append(uids, pods[i].object.UID)
	}
	return uids
}
