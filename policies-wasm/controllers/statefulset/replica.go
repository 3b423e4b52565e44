package statefulset

import (
	"sort"
	"strconv"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// replica is the pod of one ordinal, there or to be made.
type replica struct {
	pods.Pod
	ordinal int
}

// fresh tells whether the pod is still to be made.
func (r *replica) fresh() bool { return r.UID == "" }

func (r *replica) ended() bool { return r.Phase == "Failed" || r.Phase == "Succeeded" }

func (r *replica) runningAndReady() bool { return r.Phase == "Running" && r.Ready }

func (r *replica) revision() string {
	name, _ := r.Labels.Get(revisionLabel)
	return name
}

func (s *set) available(r *replica) bool {
	ok, _ := r.Available(s.minReady, s.Now)
	return ok
}

func (s *set) unavailable(r *replica) bool { return r.Deleted != 0 || !s.available(r) }

// broken tells whether the pod is of an older revision and never was ready, and
// the set's owner wants such pods replaced.
func (s *set) broken(r *replica) bool {
	if text, _ := s.Parent.Annotations.Get(replaceBroken); text != "true" || s.strategy.onDelete {
		return false
	}
	return s.outdated(r) && r.ordinal-s.start >= s.strategy.partition && !everReady(r)
}

// everReady tells whether the pod is or was ready: its condition Ready has
// turned since it came to its node.
func everReady(r *replica) bool {
	if r.Ready {
		return true
	}
	text, _ := r.Field("status.startTime").Text()
	start := pods.Nanos(text)
	return start != 0 && r.ReadySince > start+pods.Second
}

// ordinalOf takes the name of a pod apart; -1 says that it has no ordinal.
func ordinalOf(name string) (parent string, ordinal int) {
	at := len(name)
	for at > 0 && name[at-1] >= '0' && name[at-1] <= '9' {
		at--
	}
	if at == len(name) || at == 0 || name[at-1] != '-' {
		return "", -1
	}
	n, err := strconv.ParseInt(name[at:], 10, 32)
	if err != nil {
		return name[:at-1], -1
	}
	return name[:at-1], int(n)
}

// claimPods takes in the pods that are the set's by name and selector, and lets
// others go.
func (s *set) claimPods() {
	s.pods = make([]*replica, 0, len(s.Children))
	for _, o := range s.Children {
		if o.Kind != "Pod" {
			continue
		}
		parent, ordinal := ordinalOf(o.Name)
		ours := parent == s.Parent.Name && s.selector.Matches(s.Symbols, o.Labels.Pairs)
		switch owner := o.Controller(); {
		case owner == s.Parent.UID && ours:
		case owner == s.Parent.UID && s.Parent.Deleted == 0:
			s.out.Release = append(s.out.Release, o.UID)
			continue
		case owner == "" && ours && s.Parent.Deleted == 0 && o.Deleted == 0:
			s.out.Adopt = append(s.out.Adopt, o.UID)
		default:
			continue
		}
		s.pods = append(s.pods, &replica{pods.Read(o), ordinal})
	}
}

// sort gives each pod its place, and makes room for those that are missing: not
// for more of them than one answer creates, besides those between others.
func (s *set) sort() {
	last := 0
	for _, r := range s.pods {
		if s.wanted(r) {
			last = max(last, r.ordinal-s.start+1)
		}
	}
	s.members = make([]*replica, min(s.replicas, last+s.most))
	s.left = s.replicas - len(s.members)
	for _, r := range s.pods {
		switch {
		case s.wanted(r):
			s.members[r.ordinal-s.start] = r
		case r.ordinal >= 0:
			s.condemned = append(s.condemned, r)
		}
	}
	for i := range s.members {
		if s.members[i] == nil {
			s.members[i] = s.missing(s.start + i)
		}
	}
	sort.Sort(descending(s.condemned))
}

// wanted tells whether the set has the ordinal of a pod.
func (s *set) wanted(r *replica) bool {
	return r.ordinal >= s.start && r.ordinal < s.start+s.replicas
}

func (s *set) missing(ordinal int) *replica {
	name := s.Parent.Name + "-" + strconv.Itoa(ordinal)
	return &replica{pods.Pod{Object: &reconcile.Object{Name: name}}, ordinal}
}

type descending []*replica

func (d descending) Len() int           { return len(d) }
func (d descending) Less(i, j int) bool { return d[i].ordinal > d[j].ordinal }
func (d descending) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }

// create makes a pod and its claims; it fails where a claim is on its way out.
// What is too much for one answer comes with the next.
func (s *set) create(r *replica) (done bool) {
	if len(s.out.Create) >= s.most {
		s.out.Step = true
		return true
	}
	if !s.createClaims(r, s.told("Create", r)+" failed error: ") {
		return false
	}
	s.retain(r)
	v := &s.update
	if s.atCurrent(r.ordinal) {
		v = &s.current
	}
	c := v.pod(s, r)
	c.Count, c.Success, c.Failure = 1, s.told("Create", r)+" successful", s.told("Create", r)+" failed error: "
	s.out.Create = append(s.out.Create, c)
	return true
}

// atCurrent tells whether a new pod gets the current revision still.
func (s *set) atCurrent(ordinal int) bool { return ordinal < s.start+s.strategy.partition }

// conform brings a pod that is there to its identity and its volumes, and its
// claims to the set's retention policy.
func (s *set) conform(r *replica) (done bool) {
	name, _ := r.Labels.Get(nameLabel)
	named, stored, kept := name == r.Name, s.mounted(r), s.retained(r)
	if named && stored && kept {
		return true
	}
	if !stored {
		if s.createClaims(r, "") && !kept {
			s.retain(r)
		}
		s.event("Warning", "FailedUpdate", s.told("Update", r)+" failed error: its volumes are not those of spec.volumeClaimTemplates, "+
			"and cannot be changed: delete the pod, and it is made anew")
		return false
	}
	if !named {
		s.out.Patch = append(s.out.Patch, reconcile.Patch{UID: r.UID, Patch: identity(r)})
	}
	if !kept {
		s.retain(r)
	}
	s.event("Normal", "SuccessfulUpdate", s.told("Update", r)+" successful")
	return true
}

// identity is a merge patch with the labels by which a pod is known.
func identity(r *replica) string {
	j := &json.Writer{}
	j.Open('{').Key("metadata").Open('{').Key("labels").Open('{')
	j.Key(nameLabel).Text(r.Name).Key(indexLabel).Text(strconv.Itoa(r.ordinal))
	return string(j.Close('}').Close('}').Close('}').Bytes())
}
