package deployment

import (
	"strconv"
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/policies-wasm/controllers/revision"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// ensure keeps the annotations and the revision of the template's ReplicaSet, and is
// false where there is none. It makes one then, which admission may refuse: what
// depends on it comes with the next question, when it is in.
func (d *deployment) ensure() bool {
	if d.newest != nil {
		d.keepNewest()
		return true
	}
	d.out.Step = true
	hash, _ := d.Parent.Field(abi.FactTemplateHash).Text()
	name := setName(d.Parent.Name, hash)
	taken, leaving := revision.Refused(d.Request, name)
	if d.owns(name) || taken && !leaving {
		// The next question has another hash.
		d.collisions, d.hasCollisions = d.collisions+1, true
		d.writeStatus(false)
		return false
	}
	switch {
	case leaving:
		d.out.Why = append(d.out.Why, "another's ReplicaSet "+name+" has to go first")
	case d.Refused != "":
		if d.deadline >= 0 {
			d.set("Progressing", "False", "ReplicaSetCreateError", "Failed to create new replica set \""+name+"\": "+d.Refused)
		}
		d.writeStatus(false)
	}
	s := &set{name: name}
	s.replicas = d.newReplicas(s)
	d.annotate(s)
	s.note(maxKey, strconv.FormatInt(d.replicas+d.surge, 10)) // it gets desiredKey once it is in
	d.out.Create = append(d.out.Create, reconcile.Creation{Object: d.object(s, hash), Count: 1})
	return false
}

// owns tells whether a ReplicaSet of another template has that name.
func (d *deployment) owns(name string) bool {
	for _, o := range d.sets {
		if o.name == name {
			return true
		}
	}
	return false
}

// setName is the Deployment's name, shortened where an API object could not be
// named so, and the hash.
func setName(name, hash string) string {
	const longest = 253
	return name[:min(len(name), longest-1-len(hash))] + "-" + hash
}

// longer appends to a list of past revisions, the eldest of which are forgotten
// once it is long.
func longer(history, revision string) string {
	const longest = 2000
	if history == "" {
		return revision
	}
	for len(history)+1+len(revision) > longest {
		_, history, _ = strings.Cut(history, ",")
	}
	return history + "," + revision
}

// newReplicas is how many replicas the ReplicaSet of the template is to have now.
func (d *deployment) newReplicas(s *set) int64 {
	if d.recreate {
		return d.replicas
	}
	room := d.replicas + d.surge - d.present()
	if room <= 0 {
		return s.replicas
	}
	return s.replicas + min(room, d.replicas-s.replicas)
}

// keepNewest keeps what the newest ReplicaSet has of the Deployment.
func (d *deployment) keepNewest() {
	s := d.newest
	if s == nil {
		return
	}
	d.keepRevision()
	if s.minReady != d.minReady {
		s.minReady, s.setMinReady = d.minReady, true
	}
	if s.annotation(desiredKey) == "" { // it is seen for the first time
		s.note(desiredKey, strconv.FormatInt(d.replicas, 10))
		if s.Controller() == d.Parent.UID {
			d.tellMade()
		}
	}
	d.tellFound()
}

// tellMade says that the newest ReplicaSet was made, once it is in.
func (d *deployment) tellMade() {
	s := d.newest
	if s.replicas > 0 {
		d.tellScaled(s.name, 0, s.replicas)
	}
	if d.deadline >= 0 {
		d.set("Progressing", "True", "NewReplicaSetCreated", "Created new replica set \""+s.name+"\"")
	}
}

// tellFound begins the deadline of a roll-out that nobody has begun yet.
func (d *deployment) tellFound() {
	if d.newest != nil && d.condition("Progressing") == nil && d.deadline >= 0 {
		d.set("Progressing", "True", "FoundNewReplicaSet", "Found new replica set \""+d.newest.name+"\"")
	}
}

// keepRevision gives the newest ReplicaSet the next revision, and the Deployment the
// same.
func (d *deployment) keepRevision() {
	d.annotate(d.newest)
	revision := strconv.FormatInt(d.newest.revision, 10)
	if have, _ := d.Parent.Annotations.Get(revisionKey); have != revision {
		j := (&json.Writer{}).Open('{').Key("metadata").Open('{').Key("annotations").Open('{').Key(revisionKey).Text(revision)
		d.out.Patch = append(d.out.Patch, reconcile.Patch{UID: d.Parent.UID, Patch: string(j.Close('}').Close('}').Close('}').Bytes())})
	}
}

// annotate gives a ReplicaSet of the newest template the annotations of the Deployment
// and the next revision.
func (d *deployment) annotate(s *set) {
	for i := range d.Parent.Annotations.Len() {
		switch key, value := d.Parent.Annotations.At(i); key {
		case revisionKey, historyKey, desiredKey, maxKey, appliedKey, rollbackKey:
		default:
			s.note(key, value)
		}
	}
	next := int64(1)
	for _, o := range d.old() {
		next = max(next, o.revision+1)
	}
	if s.revision >= next {
		return
	}
	if s.revision > 0 {
		s.note(historyKey, longer(s.annotation(historyKey), strconv.FormatInt(s.revision, 10)))
	}
	s.revision = next
	s.note(revisionKey, strconv.FormatInt(next, 10))
}

// object is a new ReplicaSet of the template.
func (d *deployment) object(s *set, hash string) string {
	meta := d.Parent.Field("spec.template.metadata")
	selector := d.Parent.Field("spec.selector")
	j := (&json.Writer{}).Open('{').Key("apiVersion").Text("apps/v1").Key("kind").Text("ReplicaSet")
	j.Key("metadata").Open('{').Key("name").Text(s.name).Key("annotations").Open('{')
	for _, key := range sorted(s.annotate) {
		j.Key(key).Text(s.annotate[key])
	}
	j.Close('}')
	hashed(j, "labels", meta.Object("labels"), hash)
	j.Close('}').Key("spec").Open('{').Key("replicas").Int(s.replicas).Key("minReadySeconds").Int(d.minReady)
	j.Key("selector").Open('{')
	hashed(j, "matchLabels", selector.Object("matchLabels"), hash)
	if selector.Has("matchExpressions") {
		j.Key("matchExpressions").Value(selector.Object("matchExpressions").JSON())
	}
	j.Close('}').Key("template").Open('{').Key("metadata").Open('{')
	hashed(j, "labels", meta.Object("labels"), hash)
	for key, v := range meta.All {
		if key != "labels" {
			j.Key(key).Value(v.JSON())
		}
	}
	j.Close('}').Key("spec").Value(d.Parent.JSON("spec.template.spec")).Close('}').Close('}')
	return string(j.Close('}').Bytes())
}

// hashed writes labels, with the hash among them.
func hashed(j *json.Writer, key string, labels sdk.Config, hash string) {
	j.Key(key).Open('{')
	for name, v := range labels.All {
		if name != hashKey {
			j.Key(name).Value(v.JSON())
		}
	}
	j.Key(hashKey).Text(hash).Close('}')
}
