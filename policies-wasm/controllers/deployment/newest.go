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

// ensure makes the ReplicaSet of the template if there is none, and keeps its
// annotations and revision.
func (d *deployment) ensure() {
	if d.newest != nil {
		d.keepNewest()
		return
	}
	hash, _ := d.Parent.Field(abi.FactTemplateHash).Text()
	s := &set{name: setName(d.Parent.Name, hash), made: true, minReady: d.minReady, created: d.Now}
	taken, leaving := revision.Refused(d.Request, s.name)
	if d.owns(s.name) || taken && !leaving {
		// The next question has another hash.
		d.collisions, d.hasCollisions = d.collisions+1, true
		d.out.Step = true
		return
	}
	switch {
	case leaving:
		d.out.Why = append(d.out.Why, "another's ReplicaSet "+s.name+" has to go first")
	case d.Refused != "":
		d.set("Progressing", "False", "ReplicaSetCreateError", "Failed to create new replica set \""+s.name+"\": "+d.Refused)
	}
	d.newest, d.sets = s, append(d.sets, s)
	s.replicas = d.newReplicas()
	d.keepRevision()
	d.noteSizes(s)
	d.out.Create = append(d.out.Create, reconcile.Creation{Object: d.object(s, hash), Count: 1})
	if d.Refused != "" {
		return // what it is to be was told at the first try
	}
	if s.replicas > 0 {
		d.out.Events = append(d.out.Events, reconcile.Event{
			Type: "Normal", Reason: "ScalingReplicaSet",
			Message: "Scaled up replica set " + s.name + " from 0 to " + strconv.FormatInt(s.replicas, 10),
		})
	}
	if d.deadline >= 0 {
		d.set("Progressing", "True", "NewReplicaSetCreated", "Created new replica set \""+s.name+"\"")
	}
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

// newReplicas is how many replicas the newest ReplicaSet is to have now.
func (d *deployment) newReplicas() int64 {
	if d.recreate {
		return d.replicas
	}
	room := d.replicas + d.surge - d.present()
	if room <= 0 {
		return d.newest.replicas
	}
	return d.newest.replicas + min(room, d.replicas-d.newest.replicas)
}

// keepNewest keeps what the newest ReplicaSet has of the Deployment.
func (d *deployment) keepNewest() {
	if d.newest == nil {
		return
	}
	d.keepRevision()
	if d.newest.minReady != d.minReady {
		d.newest.minReady, d.newest.setMinReady = d.minReady, true
	}
	d.tellFound()
}

// tellFound begins the deadline of a roll-out that nobody has begun yet.
func (d *deployment) tellFound() {
	if d.newest != nil && d.condition("Progressing") == nil && d.deadline >= 0 {
		d.set("Progressing", "True", "FoundNewReplicaSet", "Found new replica set \""+d.newest.name+"\"")
	}
}

// keepRevision gives the newest ReplicaSet the annotations of the Deployment and
// the next revision, and the Deployment the same.
func (d *deployment) keepRevision() {
	s := d.newest
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
	if s.revision < next {
		if s.revision > 0 {
			s.note(historyKey, longer(s.annotation(historyKey), strconv.FormatInt(s.revision, 10)))
		}
		s.revision = next
		s.note(revisionKey, strconv.FormatInt(next, 10))
	}
	revision := strconv.FormatInt(s.revision, 10)
	if have, _ := d.Parent.Annotations.Get(revisionKey); have != revision {
		j := (&json.Writer{}).Open('{').Key("metadata").Open('{').Key("annotations").Open('{').Key(revisionKey).Text(revision)
		d.out.Patch = append(d.out.Patch, reconcile.Patch{UID: d.Parent.UID, Patch: string(j.Close('}').Close('}').Close('}').Bytes())})
	}
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
