package policytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// body is an object as JSON decodes it, numbers as they are written.
type body = map[string]any

// object is one object of a world.
type object struct {
	apiVersion, kind, namespace, name, uid string
	generation                             int64
	version                                int
	created, deleted                       time.Time
	readySince                             time.Time
	body                                   body
}

// clustered are the kinds that have no namespace.
var clustered = []string{"Node", "Namespace", "PersistentVolume", "StorageClass", "PriorityClass", "ClusterRole", "ClusterRoleBinding", "IngressClass", "CSINode", "CSIDriver"}

func readBody(text string) (body, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var b body
	if err := decoder.Decode(&b); err != nil {
		return nil, err
	}
	return b, nil
}

func copyOf(b body) body {
	data, _ := json.Marshal(b)
	c, _ := readBody(string(data))
	return c
}

// add stores a new object.
func (w *World) add(b body) (*object, error) {
	o := &object{body: b, generation: 1, created: w.now}
	o.apiVersion, _ = b["apiVersion"].(string)
	o.kind, _ = b["kind"].(string)
	meta := o.meta()
	o.name, _ = meta["name"].(string)
	o.namespace, _ = meta["namespace"].(string)
	if o.namespace == "" && !slices.Contains(clustered, o.kind) {
		o.namespace = "default"
	}
	if generate, _ := meta["generateName"].(string); o.name == "" && generate != "" {
		o.name = generate + fmt.Sprintf("%05d", w.made+1)
	}
	switch {
	case o.apiVersion == "" || o.kind == "":
		return nil, errors.New("an object has an apiVersion and a kind")
	case o.name == "":
		return nil, errors.New("an object has metadata.name or metadata.generateName")
	case w.find(o.kind, o.title()) != nil:
		return nil, fmt.Errorf("%s %q already exists", o.kind, o.title())
	}
	w.made++
	o.uid = "uid-" + strconv.Itoa(w.made)
	w.objects = append(w.objects, o)
	w.wrote(o)
	if o.kind == "Pod" {
		w.become(o, PodStatus{Phase: "Pending"})
		w.after(time.Second, func() {
			if w.has(o) && o.deleted.IsZero() && o.phase() == "Pending" {
				w.become(o, w.start(o.title()))
			}
		})
	}
	return o, nil
}

func (w *World) wrote(o *object) {
	w.writes++
	o.version = w.writes
}

func (w *World) has(o *object) bool { return slices.Contains(w.objects, o) }

func (w *World) find(kind, name string) *object {
	for _, o := range w.objects {
		if o.kind == kind && (o.title() == name || o.namespace+"/"+o.name == name) {
			return o
		}
	}
	return nil
}

// merge applies a merge patch; a patch that changes nothing writes nothing.
func (w *World) merge(o *object, patch json.RawMessage) error {
	p, err := readBody(string(patch))
	if err != nil {
		return err
	}
	next := copyOf(o.body)
	merged(next, p)
	w.replace(o, next)
	return nil
}

func merged(to, patch body) {
	for key, value := range patch {
		inner, ok := value.(body)
		switch {
		case value == nil:
			delete(to, key)
		case ok:
			below, had := to[key].(body)
			if !had {
				below = body{}
				to[key] = below
			}
			merged(below, inner)
		default:
			to[key] = value
		}
	}
}

// replace stores an object's next state.
func (w *World) replace(o *object, next body) {
	was, _ := json.Marshal(o.body)
	is, _ := json.Marshal(next)
	if bytes.Equal(was, is) {
		return
	}
	if spec(o.body) != spec(next) {
		o.generation++
	}
	o.body = next
	w.wrote(o)
	if !o.deleted.IsZero() && len(o.finalizers()) == 0 {
		w.drop(o)
	}
}

// spec is all of an object but its metadata and its status.
func spec(b body) string {
	rest := maps.Clone(b)
	delete(rest, "metadata")
	delete(rest, "status")
	data, _ := json.Marshal(rest)
	return string(data)
}

// remove deletes an object: one with finalizers stays until they are gone, a pod
// that runs for a second.
func (w *World) remove(o *object, propagation string) {
	if !o.deleted.IsZero() {
		return
	}
	o.deleted = w.now
	w.wrote(o)
	if propagation == "Orphan" {
		for _, child := range w.objects {
			w.disown(child, o)
		}
	}
	switch {
	case len(o.finalizers()) > 0:
	case o.kind == "Pod" && o.phase() == "Running":
		w.after(time.Second, func() {
			if w.has(o) && len(o.finalizers()) == 0 {
				w.drop(o)
			}
		})
	default:
		w.drop(o)
	}
}

// drop takes an object away, and deletes what it owned.
func (w *World) drop(o *object) {
	if !w.has(o) {
		return
	}
	w.objects = slices.DeleteFunc(w.objects, func(other *object) bool { return other == o })
	delete(w.asked, o.uid)
	w.writes++
	for _, child := range slices.Clone(w.objects) {
		if slices.ContainsFunc(child.owners(), func(ref body) bool { return ref["uid"] == o.uid }) && len(child.owners()) == 1 {
			w.remove(child, "")
		}
	}
}

func (w *World) disown(child, owner *object) {
	left := slices.DeleteFunc(child.owners(), func(ref body) bool { return ref["uid"] == owner.uid })
	if len(left) == len(child.owners()) {
		return
	}
	next := copyOf(child.body)
	setOwners(next, left)
	w.replace(child, next)
}

func setOwners(b body, owners []body) {
	list := make([]any, len(owners))
	for i := range owners {
		list[i] = owners[i]
	}
	meta := b["metadata"].(body)
	meta["ownerReferences"] = list
}

// become writes how a pod is, as its node would.
func (w *World) become(o *object, how PodStatus) {
	next := copyOf(o.body)
	ready := map[bool]string{true: "True", false: "False"}[how.Ready]
	if how.Ready != o.ready() {
		o.readySince = w.now
	}
	if how.Phase != "Pending" {
		spec, ok := next["spec"].(body)
		if !ok {
			spec = body{}
			next["spec"] = spec
		}
		if spec["nodeName"] == nil {
			spec["nodeName"] = "node-1"
		}
	}
	next["status"] = body{
		"phase":             how.Phase,
		"podIP":             "10.0.0." + strings.TrimPrefix(o.uid, "uid-"),
		"conditions":        []any{body{"type": "Ready", "status": ready, "lastTransitionTime": o.readySince.UTC().Format(time.RFC3339)}},
		"containerStatuses": []any{body{"restartCount": json.Number(strconv.Itoa(how.Restarts))}},
	}
	w.replace(o, next)
}

func (o *object) title() string {
	if o.namespace == "" || o.namespace == "default" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

func (o *object) meta() body {
	meta, ok := o.body["metadata"].(body)
	if !ok {
		meta = body{}
		o.body["metadata"] = meta
	}
	return meta
}

// at follows a path such as spec.template.
func (o *object) at(path string) any {
	var at any = o.body
	for step := range strings.SplitSeq(path, ".") {
		b, ok := at.(body)
		if !ok {
			return nil
		}
		at = b[step]
	}
	return at
}

func (o *object) field(path string) json.RawMessage {
	value := o.at(path)
	if value == nil {
		return nil
	}
	data, _ := json.Marshal(value)
	return data
}

func (o *object) text(path string) string {
	s, _ := o.at(path).(string)
	return s
}

func (o *object) phase() string { return o.text("status.phase") }

func (o *object) ready() bool {
	list, _ := o.at("status.conditions").([]any)
	return slices.ContainsFunc(list, func(c any) bool {
		b, _ := c.(body)
		return b["type"] == "Ready" && b["status"] == "True"
	})
}

func (o *object) restarts() int64 {
	list, _ := o.at("status.containerStatuses").([]any)
	if len(list) == 0 {
		return 0
	}
	b, _ := list[0].(body)
	count, _ := b["restartCount"].(json.Number)
	n, _ := count.Int64()
	return n
}

func (o *object) finalizers() (names []string) {
	list, _ := o.at("metadata.finalizers").([]any)
	for _, one := range list {
		if s, ok := one.(string); ok {
			names = append(names, s)
		}
	}
	return names
}

func (o *object) owners() (refs []body) {
	list, _ := o.at("metadata.ownerReferences").([]any)
	for _, one := range list {
		if ref, ok := one.(body); ok {
			refs = append(refs, ref)
		}
	}
	return refs
}

// controller is the UID of the owner that controls the object.
func (o *object) controller() string {
	for _, ref := range o.owners() {
		if ref["controller"] == true {
			uid, _ := ref["uid"].(string)
			return uid
		}
	}
	return ""
}

func texts(value any) map[string]string {
	m := map[string]string{}
	b, _ := value.(body)
	for key, value := range b {
		if s, ok := value.(string); ok {
			m[key] = s
		}
	}
	return m
}

func (o *object) labels() map[string]string { return texts(o.at("metadata.labels")) }

// selects tells whether a selector, in either of its forms, matches labels. An
// absent one matches nothing, an empty LabelSelector what emptyIsAll says.
func selects(selector any, labels map[string]string, emptyIsAll bool) bool {
	s, ok := selector.(body)
	if !ok {
		return false
	}
	exact, hasLabels := s["matchLabels"].(body)
	rules, hasRules := s["matchExpressions"].([]any)
	if !hasLabels && !hasRules {
		if len(s) == 0 {
			return emptyIsAll
		}
		exact = s
	}
	if len(exact) == 0 && len(rules) == 0 && !emptyIsAll {
		return false
	}
	for key, value := range texts(exact) {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return !slices.ContainsFunc(rules, func(rule any) bool { return !holds(rule, labels) })
}

func holds(rule any, labels map[string]string) bool {
	r, _ := rule.(body)
	key, _ := r["key"].(string)
	values, _ := r["values"].([]any)
	have, ok := labels[key]
	switch r["operator"] {
	case "In":
		return ok && slices.Contains(values, any(have))
	case "NotIn":
		return !ok || !slices.Contains(values, any(have))
	case "Exists":
		return ok
	case "DoesNotExist":
		return !ok
	}
	return false
}
