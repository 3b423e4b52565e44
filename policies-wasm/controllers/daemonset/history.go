package daemonset

import (
	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/policies-wasm/controllers/revision"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// history is what the set's revisions say.
type history struct {
	old []revision.Revision
	// deletes are what the history alone deletes by an answer.
	deletes int
}

// keepHistory finds the revision of the template, or makes one. It is false
// where nothing else can be done yet.
func (s *set) keepHistory() bool {
	for _, o := range s.ChildrenOf(revision.Kind.Kind) {
		if o.Controller() == s.Parent.UID && !s.selector.Matches(s.Symbols, o.Labels.Pairs) {
			s.out.Release = append(s.out.Release, o.UID)
		}
	}
	data, _ := s.Parent.Field("template.revision").Text()
	var current []revision.Revision
	for _, r := range revision.Claim(s.Request, &s.selector, &s.out) {
		if r.Data == data {
			current = append(current, r)
		} else {
			s.history.old = append(s.history.old, r)
		}
		if _, ok := r.Labels.Get(revisionLabel); !ok {
			s.out.Patch = append(s.out.Patch, label(r.UID, r.Name))
		}
	}
	next := revision.Next(s.history.old)
	if len(current) == 0 {
		s.snapshot(data, next)
		return false
	}
	s.hash = s.deduplicate(s.grown(current), next)
	s.history.deletes = len(s.out.Delete)
	return true
}

// hashOf is the label of pods of a revision. One without gets its name.
func hashOf(r *revision.Revision) string {
	if hash, ok := r.Labels.Get(revisionLabel); ok {
		return hash
	}
	return r.Name
}

func label(uid, hash string) reconcile.Patch {
	j := &json.Writer{}
	j.Open('{').Key("metadata").Open('{').Key("labels").Open('{').Key(revisionLabel).Text(hash)
	return reconcile.Patch{UID: uid, Patch: string(j.Close('}').Close('}').Close('}').Bytes())}
}

// young is how long a second revision of the template is left alone. Only others
// make one, and whoever did may be about to take the first away: Kubernetes'
// controller does not look at a revision just because it came.
const young = 2 * pods.Second

// grown leaves young revisions of the template out, where there is another.
func (s *set) grown(current []revision.Revision) []revision.Revision {
	var grown []revision.Revision
	for _, r := range current {
		if age := s.Now - r.Created; age >= young {
			grown = append(grown, r)
		} else if len(current) > 1 {
			s.later(young - age)
		}
	}
	if len(grown) == 0 {
		return current
	}
	return grown
}

// deduplicate keeps the newest of the revisions of the template, as the newest
// of all, and returns its hash.
func (s *set) deduplicate(current []revision.Revision, next int64) string {
	keep := &current[len(current)-1]
	hash := hashOf(keep)
	if len(current) > 1 {
		for _, p := range s.pods {
			if have, _ := p.Labels.Get(revisionLabel); have != hash {
				s.out.Patch = append(s.out.Patch, label(p.UID, hash))
			}
		}
	}
	for i := range current[:len(current)-1] {
		s.out.Delete = append(s.out.Delete, reconcile.Deletion{UID: current[i].UID, Quiet: true})
	}
	if keep.Number < next {
		s.out.Patch = append(s.out.Patch, revision.Renumber(keep, next))
	}
	return hash
}

// snapshot makes a revision of the template, which admission may refuse: what depends
// on it comes with the next question, when it is in. A name that somebody else has
// makes another hash then.
func (s *set) snapshot(data string, number int64) {
	s.out.Step = true
	hash, _ := s.Parent.Field("template.hash").Text()
	name := s.Parent.Name + "-" + hash
	own := revision.Taken(s.Request, name)
	taken, leaving := revision.Refused(s.Request, name)
	if own || taken && !leaving {
		status := s.was
		status.collisions++
		s.out.Status = status.json(s)
		return
	}
	if leaving {
		s.wait("another's ControllerRevision " + name + " has to go first")
	}
	labels := s.Parent.Field("spec.template.metadata.labels")
	s.out.Create = append(s.out.Create, revision.New(&s.Parent, name, revisionLabel, hash, labels, data, number))
}

// truncate keeps spec.revisionHistoryLimit revisions besides the newest, and
// those that pods are of.
func (s *set) truncate() {
	limit := 10
	if n, ok := s.Parent.Field("spec.revisionHistoryLimit").Number(); ok {
		limit = int(n)
	}
	surplus := len(s.history.old) - limit
	if surplus <= 0 {
		return
	}
	live := map[string]bool{}
	for _, p := range s.pods {
		if hash, _ := p.Labels.Get(revisionLabel); hash != "" {
			live[hash] = true
		}
	}
	for i := range s.history.old {
		r := &s.history.old[i]
		if surplus == 0 {
			return
		}
		if !live[hashOf(r)] {
			s.out.Delete = append(s.out.Delete, reconcile.Deletion{UID: r.UID, Quiet: true})
			surplus--
		}
	}
}
