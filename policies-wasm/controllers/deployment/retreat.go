package deployment

import (
	"strconv"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Annotations of a Deployment that goes back by itself when its deadline passes.
const (
	// retreatKey is "true" where that is wanted.
	retreatKey = "deployment.berth.dev/rollback-on-deadline"
	// leftKey names the ReplicaSet that it went back from: it does not go there.
	leftKey = "deployment.berth.dev/rolled-back-from"
)

// retreat goes back to the template before, once the deadline has passed.
func (d *deployment) retreat() {
	if wanted, _ := d.Parent.Annotations.Get(retreatKey); wanted != "true" || d.newest == nil || d.paused {
		return
	}
	left, _ := d.Parent.Annotations.Get(leftKey)
	var to *set
	for _, s := range d.old() {
		if s.name != left && (to == nil || s.revision > to.revision) {
			to = s
		}
	}
	if to == nil || left == d.newest.name {
		return
	}
	is, was := d.Parent.Field("spec.template.spec"), to.Field("spec.template.spec")
	meta := to.Field("spec.template.metadata")
	j := (&json.Writer{}).Open('{').Key("metadata").Open('{').Key("annotations").Open('{').Key(leftKey).Text(d.newest.name).Close('}').Close('}')
	j.Key("spec").Open('{').Key("template").Open('{').Key("metadata").Open('{')
	for _, part := range [...]string{"labels", "annotations"} {
		j.Key(part).Open('{')
		difference(j, d.Parent.Field("spec.template.metadata").Object(part), meta.Object(part), hashKey)
		j.Close('}')
	}
	j.Close('}').Key("spec").Open('{')
	difference(j, is, was, "")
	j.Close('}').Close('}').Close('}').Close('}')
	d.out.Patch = append(d.out.Patch, reconcile.Patch{UID: d.Parent.UID, Patch: string(j.Bytes())})
	d.out.Step = true // a roll-out of that
	message := "Rolled back deployment \"" + d.Parent.Name + "\" to revision " + strconv.FormatInt(to.revision, 10) + ": " + d.newest.name + " has timed out progressing"
	d.out.Events = append(d.out.Events, reconcile.Event{Type: "Warning", Reason: "DeploymentRollback", Message: message})
}

// difference writes the members of a merge patch that makes one object another,
// which has no member but.
func difference(j *json.Writer, from, to sdk.Config, but string) {
	for key := range from.All {
		if key == but || !to.Has(key) {
			j.Key(key).Value("null")
		}
	}
	for key, v := range to.All {
		was := from.Object(key)
		switch {
		case key == but || was.JSON() == v.JSON():
		case was.Keys() == nil || v.Keys() == nil:
			j.Key(key).Value(v.JSON())
		default:
			j.Key(key).Open('{')
			difference(j, was, v, "")
			j.Close('}')
		}
	}
}
