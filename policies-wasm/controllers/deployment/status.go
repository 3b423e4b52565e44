package deployment

import (
	"strconv"
	"time"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
)

type condition struct{ kind, status, updated, changed, reason, message string }

func readConditions(c sdk.Config) (list []condition) {
	for _, one := range c.Items() {
		list = append(list, condition{
			one.String("type", ""), one.String("status", ""), one.String("lastUpdateTime", ""),
			one.String("lastTransitionTime", ""), one.String("reason", ""), one.String("message", ""),
		})
	}
	return list
}

func (d *deployment) condition(kind string) *condition {
	for i := range d.conditions {
		if d.conditions[i].kind == kind {
			return &d.conditions[i]
		}
	}
	return nil
}

// set makes a condition so; one with this status and reason stays as it is.
func (d *deployment) set(kind, status, reason, message string) {
	now := pods.Time(d.Now)
	d.put(condition{kind, status, now, now, reason, message})
}

func (d *deployment) put(fresh condition) {
	if was := d.condition(fresh.kind); was != nil {
		if was.status == fresh.status && was.reason == fresh.reason {
			return
		}
		if was.status == fresh.status {
			fresh.changed = was.changed
		}
		d.drop(fresh.kind)
	}
	d.conditions = append(d.conditions, fresh)
}

func (d *deployment) drop(kind string) {
	kept := d.conditions[:0:0]
	for _, c := range d.conditions {
		if c.kind != kind {
			kept = append(kept, c)
		}
	}
	d.conditions = kept
}

// tellPause keeps the deadline from running while the Deployment is paused.
func (d *deployment) tellPause() {
	was := d.condition("Progressing")
	if d.deadline < 0 || was != nil && was.reason == "ProgressDeadlineExceeded" {
		return
	}
	told := was != nil && was.reason == "DeploymentPaused"
	switch {
	case d.paused && !told:
		d.set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
	case !d.paused && told:
		d.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")
	}
}

type counts struct{ replicas, updated, ready, available, unavailable, terminating int64 }

func (d *deployment) counts() (c counts) {
	for _, s := range d.sets {
		c.replicas += s.has
		c.ready += s.ready
		c.available += s.available
		c.terminating += s.leaving
	}
	if d.newest != nil {
		c.updated = d.newest.has
	}
	c.unavailable = max(d.wanted()-c.available, 0)
	return c
}

func (d *deployment) before() counts {
	n := func(name string) int64 { v, _ := d.status.Object(name).Number(); return int64(v) }
	return counts{replicas: n("replicas"), updated: n("updatedReplicas"), ready: n("readyReplicas"), available: n("availableReplicas")}
}

// complete: all replicas are of the newest template and available.
func (d *deployment) complete(c counts) bool {
	return c.updated == d.replicas && c.replicas == d.replicas && c.available == d.replicas
}

// writeStatus counts; rolling tells of progress too.
func (d *deployment) writeStatus(rolling bool) {
	c := d.counts()
	if c.available >= d.replicas-d.unavailable {
		d.set("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
	} else {
		d.set("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
	}
	if rolling {
		d.progress(c)
	}
	j := (&json.Writer{}).Open('{').Key("observedGeneration").Int(d.Parent.Generation)
	for _, f := range [...]struct {
		name string
		n    int64
	}{
		{"replicas", c.replicas}, {"updatedReplicas", c.updated}, {"readyReplicas", c.ready},
		{"availableReplicas", c.available}, {"unavailableReplicas", c.unavailable},
	} {
		if f.n != 0 {
			j.Key(f.name).Int(f.n)
		}
	}
	j.Key("terminatingReplicas").Int(c.terminating)
	if d.hasCollisions {
		j.Key("collisionCount").Int(d.collisions)
	}
	j.Key("conditions").Open('[')
	for i := range d.conditions {
		c := &d.conditions[i]
		j.Open('{').Key("type").Text(c.kind).Key("status").Text(c.status).Key("lastUpdateTime").Text(c.updated)
		j.Key("lastTransitionTime").Text(c.changed).Key("reason").Text(c.reason).Key("message").Text(c.message).Close('}')
	}
	d.out.Status = string(j.Close(']').Close('}').Bytes())
}

// progress says how the roll-out goes, and when to look at its deadline.
func (d *deployment) progress(c counts) {
	was := d.condition("Progressing")
	if d.deadline < 0 {
		d.drop("Progressing")
		d.failures()
		return
	}
	about := "Deployment \"" + d.Parent.Name + "\""
	if d.newest != nil {
		about = "ReplicaSet \"" + d.newest.name + "\""
	}
	before := d.before()
	switch {
	case was != nil && c.replicas == c.updated && was.reason == "NewReplicaSetAvailable":
	case d.complete(c):
		d.set("Progressing", "True", "NewReplicaSetAvailable", about+" has successfully progressed.")
	case c.updated > before.updated || c.replicas-c.updated < before.replicas-before.updated || c.ready > before.ready || c.available > before.available:
		d.moved(was, about+" is progressing.")
	case d.late(was):
		d.set("Progressing", "False", "ProgressDeadlineExceeded", about+" has timed out progressing.")
		d.retreat()
	}
	d.failures()
	d.askAgain(c)
}

// moved begins the deadline anew.
func (d *deployment) moved(was *condition, message string) {
	now := pods.Time(d.Now)
	fresh := condition{"Progressing", "True", now, now, "ReplicaSetUpdated", message}
	if was != nil && was.status == "True" {
		fresh.changed = was.changed
	}
	d.drop("Progressing")
	d.conditions = append(d.conditions, fresh)
}

func (d *deployment) late(was *condition) bool {
	switch {
	case was == nil || was.reason == "NewReplicaSetAvailable":
		return false
	case was.reason == "ProgressDeadlineExceeded":
		return true
	}
	return pods.Nanos(was.updated)+d.deadline*pods.Second < d.Now
}

func (d *deployment) failures() {
	list := d.old()
	if d.newest != nil {
		list = append([]*set{d.newest}, list...)
	}
	for _, s := range list {
		if s.failure != nil {
			f := s.failure
			d.put(condition{"ReplicaFailure", f.status, f.changed, f.changed, f.reason, f.message})
			return
		}
	}
	d.drop("ReplicaFailure")
}

// askAgain comes back when the deadline passes, and says what is waited for.
func (d *deployment) askAgain(c counts) {
	is := d.condition("Progressing")
	if d.complete(c) || is == nil || is.reason == "ProgressDeadlineExceeded" || is.reason == "NewReplicaSetAvailable" {
		return
	}
	if left := pods.Nanos(is.updated) + (d.deadline+1)*pods.Second - d.Now; left > 0 {
		d.out.RequeueAfter = time.Duration(left)
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	d.out.Why = []string{n(c.updated) + " of " + n(d.replicas) + " replicas are of the newest template, " + n(c.available) + " of " + n(c.replicas) + " are available; " + n(d.unavailable) + " may be missing"}
}
