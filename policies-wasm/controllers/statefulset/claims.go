package statefulset

import (
	"strconv"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// claimTemplate is one of spec.volumeClaimTemplates.
type claimTemplate struct {
	name     string
	template sdk.Config
}

// claim is a PersistentVolumeClaim of one ordinal.
type claim struct {
	*reconcile.Object
	refs []sdk.Config
	// made and patched: by this answer.
	made, patched bool
}

func (s *set) readClaims() {
	for _, t := range s.Parent.Field("spec.volumeClaimTemplates").Items() {
		s.templates = append(s.templates, claimTemplate{t.Object("metadata").String("name", ""), t})
	}
	s.claims = make(map[string]*claim, len(s.Related))
	if len(s.templates) == 0 {
		return
	}
	for _, o := range s.Related {
		s.claims[o.Name] = &claim{Object: o, refs: o.Field("metadata.ownerReferences").Items()}
	}
}

// template is the claim template of that name.
func (s *set) template(name string) *claimTemplate {
	for i := range s.templates {
		if s.templates[i].name == name {
			return &s.templates[i]
		}
	}
	return nil
}

func (s *set) claimName(t *claimTemplate, r *replica) string {
	return t.name + "-" + s.Parent.Name + "-" + strconv.Itoa(r.ordinal)
}

// claimsOf are the claims of a pod that are there.
func (s *set) claimsOf(r *replica) (list []*claim) {
	for i := range s.templates {
		if c := s.claims[s.claimName(&s.templates[i], r)]; c != nil && !c.made {
			list = append(list, c)
		}
	}
	return list
}

// createClaims makes the claims that a pod lacks. It fails where one is on its
// way out, and tells so after a prefix, if there is one.
func (s *set) createClaims(r *replica, prefix string) (done bool) {
	var going []string
	for i := range s.templates {
		t := &s.templates[i]
		name := s.claimName(t, r)
		switch c := s.claims[name]; {
		case c == nil:
			s.claims[name] = &claim{made: true}
			s.out.Create = append(s.out.Create, s.newClaim(t, name, r))
		case !c.made && c.Deleted != 0:
			going = append(going, "pvc "+name+" is being deleted")
			s.wait("claim " + name + " of pod " + r.Name + " has to be gone first")
		}
	}
	if len(going) > 0 && prefix != "" {
		s.event("Warning", "FailedCreate", prefix+joined(going))
	}
	return len(going) == 0
}

// joined is how Kubernetes tells of one error, or of several.
func joined(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	text := "["
	for i, one := range list {
		if i > 0 {
			text += ", "
		}
		text += one
	}
	return text + "]"
}

func (s *set) newClaim(t *claimTemplate, name string, r *replica) reconcile.Creation {
	j := &json.Writer{}
	j.Open('{').Key("apiVersion").Text("v1").Key("kind").Text("PersistentVolumeClaim")
	members(j, t.template, "apiVersion", "kind", "metadata", "status")
	meta, labels := t.template.Object("metadata"), s.Parent.Field("spec.selector").Object("matchLabels")
	j.Key("metadata").Open('{')
	members(j, meta, "name", "namespace", "labels", "creationTimestamp", "ownerReferences")
	j.Key("name").Text(name).Key("labels").Open('{')
	members(j, labels)
	members(j, meta.Object("labels"), labels.Keys()...)
	j.Close('}')
	if s.deleteGone {
		j.Key("ownerReferences").Open('[')
		s.owner().write(j)
		j.Close(']')
	}
	object := string(j.Close('}').Close('}').Bytes())
	of := " in StatefulSet " + s.Parent.Name
	return reconcile.Creation{
		Object: object, Count: 1, Unowned: true,
		Success: "Create Claim " + name + " Pod " + r.Name + of + " success",
		Failure: "Create Claim " + name + " for Pod " + r.Name + of + " failed error: ",
	}
}

// mounted tells whether the pod has the volumes of its claims.
func (s *set) mounted(r *replica) bool {
	if len(s.templates) == 0 {
		return true
	}
	claims := r.Field("pod.claims")
	for i := range s.templates {
		if t := &s.templates[i]; claims.String(t.name, "") != s.claimName(t, r) {
			return false
		}
	}
	return true
}

// owner is what an owner reference names.
type owner struct{ apiVersion, kind, name, uid string }

func (s *set) owner() owner {
	return owner{s.Parent.APIVersion, s.Parent.Kind, s.Parent.Name, s.Parent.UID}
}

func podOwner(r *replica) owner { return owner{"v1", "Pod", r.Name, r.UID} }

func (o owner) write(j *json.Writer) {
	j.Open('{').Key("apiVersion").Text(o.apiVersion).Key("kind").Text(o.kind).Key("name").Text(o.name)
	j.Key("uid").Text(o.uid).Key("controller").Bool(true).Key("blockOwnerDeletion").Bool(true).Close('}')
}

// named tells whether a reference is to an object of the owner's name, be it the
// same or one before it.
func (o owner) named(ref sdk.Config) bool {
	return ref.String("apiVersion", "") == o.apiVersion && ref.String("kind", "") == o.kind && ref.String("name", "") == o.name
}

func (o owner) is(ref sdk.Config) bool { return o.uid != "" && ref.String("uid", "") == o.uid }

func (o owner) owns(c *claim) bool {
	for _, ref := range c.refs {
		if o.is(ref) {
			return true
		}
	}
	return false
}

// stale tells whether the claim belongs to an earlier object of the name.
func (o owner) stale(c *claim) bool {
	for _, ref := range c.refs {
		if o.named(ref) {
			return !o.is(ref)
		}
	}
	return false
}

func controls(ref sdk.Config) bool {
	yes, err := ref.Bool("controller", false)
	return yes && err == nil
}

// stale tells whether a pod would get claims that go with a pod before it.
func (s *set) stale(r *replica) bool {
	if !s.deleteScaled {
		return false
	}
	for _, c := range s.claimsOf(r) {
		if podOwner(r).stale(c) {
			return true
		}
	}
	return false
}

// disputed tells whether somebody else controls the claim.
func (s *set) disputed(c *claim, r *replica) bool {
	if !s.deleteGone && !s.deleteScaled {
		return false
	}
	for _, ref := range c.refs {
		for _, o := range []owner{s.owner(), podOwner(r)} {
			if o.named(ref) && !o.is(ref) {
				return true
			}
		}
		if !s.owner().named(ref) && !podOwner(r).named(ref) && controls(ref) {
			return true
		}
	}
	return false
}

// wants says who should own a pod's claims.
func (s *set) wants(r *replica) (bySet, byPod bool) {
	condemned := !s.wanted(r)
	byPod = s.deleteScaled && condemned
	return s.deleteGone && !byPod, byPod
}

// rightful tells whether a claim's owners are those of the retention policy, or
// none that should be touched.
func (s *set) rightful(c *claim, r *replica) bool {
	set, pod := s.owner(), podOwner(r)
	if set.stale(c) || pod.stale(c) {
		return true
	}
	if s.disputed(c, r) {
		return !set.owns(c) && !pod.owns(c)
	}
	for _, ref := range c.refs {
		if (set.is(ref) || pod.is(ref)) && !controls(ref) {
			return false
		}
	}
	bySet, byPod := s.wants(r)
	return set.owns(c) == bySet && pod.owns(c) == byPod
}

// retained tells whether all claims of a pod are as the retention policy says.
func (s *set) retained(r *replica) bool {
	for _, c := range s.claimsOf(r) {
		if !c.patched && !s.rightful(c, r) {
			return false
		}
	}
	return true
}

// retain makes them so.
func (s *set) retain(r *replica) {
	for _, c := range s.claimsOf(r) {
		disputed := s.disputed(c, r)
		if disputed {
			s.event("Warning", "ConflictingController", "PersistentVolumeClaim "+c.Name+" has a conflicting OwnerReference that acts "+
				"as a manging controller, the retention policy is ignored for this claim")
		}
		if c.patched || s.rightful(c, r) {
			continue
		}
		c.patched = true
		s.out.Patch = append(s.out.Patch, reconcile.Patch{UID: c.UID, Patch: s.owners(c, r, disputed)})
	}
}

// keepClaims is retain of a pod that is to go.
func (s *set) keepClaims(r *replica) (wait, failed bool) {
	if !s.retained(r) {
		s.retain(r)
	}
	return false, false
}

// owners is a merge patch of a claim's owners.
func (s *set) owners(c *claim, r *replica, disputed bool) string {
	j := &json.Writer{}
	j.Open('{').Key("metadata").Open('{').Key("ownerReferences").Open('[')
	for _, ref := range c.refs {
		if !s.owner().named(ref) && !podOwner(r).named(ref) {
			j.Value(ref.JSON())
		}
	}
	bySet, byPod := s.wants(r)
	if bySet && !disputed {
		s.owner().write(j)
	}
	if byPod && !disputed {
		podOwner(r).write(j)
	}
	return string(j.Close(']').Close('}').Close('}').Bytes())
}
