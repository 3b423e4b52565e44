package statefulset

import (
	"strconv"

	"github.com/berth-dev/berth/policies-wasm/controllers/revision"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// version is a revision as pods are made of it.
type version struct {
	name, data string
	// stamped is set where the template is the parent's own.
	stamped bool
	parsed  bool
	// template and volumes are read when the first pod is made.
	template sdk.Config
	volumes  []sdk.Config
}

// history finds the current and the newest revision, and makes the newest if
// need be. It is false where nothing else can be done yet.
func (s *set) history() bool {
	s.revisions = revision.Claim(s.Request, &s.selector, &s.out)
	s.collisions = s.was.collisions
	data, _ := s.Parent.Field("template.revision").Text()
	newest := s.find(data)
	if newest == nil {
		if !s.newRevision(data) {
			return false
		}
	} else {
		s.update = version{name: newest.Name, data: newest.Data, stamped: true}
	}
	s.current = s.update
	for i := range s.revisions {
		if r := &s.revisions[i]; r.Name == s.was.currentRevision {
			s.current = version{name: r.Name, data: r.Data, stamped: r.Data == data}
			break
		}
	}
	return true
}

// find is the revision that holds the parent's template; one that is not the
// last becomes it.
func (s *set) find(data string) *revision.Revision {
	for i := len(s.revisions) - 1; i >= 0; i-- {
		r := &s.revisions[i]
		if r.Data != data {
			continue
		}
		if i < len(s.revisions)-1 {
			s.out.Patch = append(s.out.Patch, revision.Renumber(r, revision.Next(s.revisions)))
		}
		return r
	}
	return nil
}

// newRevision makes a revision of the parent's template, which admission may refuse:
// what depends on it comes with the next question, when it is in. A name that
// somebody else has makes another hash.
func (s *set) newRevision(data string) bool {
	var label, name string
	hash := func() {
		label = revision.Hash(data, s.collisions)
		name = revision.Name(s.Parent.Name, label)
	}
	for hash(); revision.Taken(s.Request, name); hash() {
		s.collisions++
	}
	switch taken, leaving := revision.Refused(s.Request, name); {
	case leaving:
		s.wait("another's ControllerRevision " + name + " has to go first")
	case taken:
		s.collisions++
		hash()
	}
	if s.Parent.Deleted != 0 {
		s.update = version{name: name, data: data, stamped: true}
		return true // it is only counted
	}
	labels := s.Parent.Field("spec.template.metadata.labels")
	s.out.Create = append(s.out.Create, revision.New(&s.Parent, name, revision.HashLabel, label, labels, data, revision.Next(s.revisions)))
	s.out.Step = true
	if now := s.was; now.collisions != s.collisions {
		now.collisions = s.collisions
		s.out.Status = now.json()
	}
	return false
}

// truncate keeps spec.revisionHistoryLimit revisions besides those in use.
func (s *set) truncate() {
	limit := int64(10)
	if n, ok := s.Parent.Field("spec.revisionHistoryLimit").Number(); ok {
		limit = int64(n)
	}
	live := map[string]bool{s.current.name: true, s.update.name: true}
	for _, r := range s.pods {
		live[r.revision()] = true
	}
	revision.Truncate(s.revisions, live, limit, &s.out)
}

// pod is one of the revision, to be made.
func (v *version) pod(s *set, r *replica) reconcile.Creation {
	v.parse(s)
	j := &json.Writer{}
	j.Open('{').Key("apiVersion").Text("v1").Key("kind").Text("Pod")
	j.Key("metadata").Open('{').Key("name").Text(r.Name).Key("generateName").Text(s.Parent.Name + "-")
	meta := v.template.Object("metadata")
	j.Key("labels").Open('{')
	members(j, meta.Object("labels"), nameLabel, indexLabel, revisionLabel)
	j.Key(nameLabel).Text(r.Name).Key(indexLabel).Text(strconv.Itoa(r.ordinal)).Key(revisionLabel).Text(v.name).Close('}')
	for _, key := range []string{"annotations", "finalizers"} {
		if meta.Has(key) {
			j.Key(key).Value(meta.Object(key).JSON())
		}
	}
	j.Close('}').Key("spec").Open('{')
	members(j, v.template.Object("spec"), "hostname", "subdomain", "volumes")
	j.Key("hostname").Text(r.Name)
	if service, _ := s.Parent.Field("spec.serviceName").Text(); service != "" {
		j.Key("subdomain").Text(service)
	} else if v.stamped {
		j.Key("subdomain").Value("null")
	}
	v.mount(j, s, r)
	c := reconcile.Creation{Object: string(j.Close('}').Close('}').Bytes())}
	if v.stamped {
		c.From = "spec.template"
	}
	return c
}

// parse reads what a pod of the revision is made of, once.
func (v *version) parse(s *set) {
	if v.parsed {
		return
	}
	v.parsed = true
	if v.stamped {
		v.volumes = s.Parent.Field("spec.template.spec.volumes").Items()
		return
	}
	v.template = revision.Template(v.data)
	v.volumes = v.template.Object("spec").Object("volumes").Items()
}

// mount writes the pod's volumes: its claims, and those of the template that no
// claim takes the place of.
func (v *version) mount(j *json.Writer, s *set, r *replica) {
	if len(s.templates) == 0 && v.stamped || len(s.templates)+len(v.volumes) == 0 {
		return
	}
	j.Key("volumes").Open('[')
	for i := range s.templates {
		t := &s.templates[i]
		j.Open('{').Key("name").Text(t.name).Key("persistentVolumeClaim").Open('{')
		j.Key("claimName").Text(s.claimName(t, r)).Close('}').Close('}')
	}
	for _, volume := range v.volumes {
		if s.template(volume.String("name", "")) == nil {
			j.Value(volume.JSON())
		}
	}
	j.Close(']')
}

// members writes those of an object that have other keys than these.
func members(j *json.Writer, c sdk.Config, but ...string) {
next:
	for key, v := range c.All {
		for _, b := range but {
			if key == b {
				continue next
			}
		}
		j.Key(key).Value(v.JSON())
	}
}
