package volumes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	volumehelpers "k8s.io/component-helpers/storage/volume"
)

// Resources that the ledger reads.
const (
	Claims  = "persistentvolumeclaims"
	Volumes = "persistentvolumes"
	Classes = "storageclasses.storage.k8s.io"
)

// noProvisioner is the provisioner of classes whose volumes are made by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

// Match is a claim and the volume that it shall get.
type Match struct {
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume
}

// Plan is what a pod's claims need on a node.
type Plan struct {
	// Matches are bound together with the pod, or when volumes are asked for.
	Matches []Match
	// Provision are claims for which a volume must be made on the node first;
	// the pod waits for them.
	Provision []*v1.PersistentVolumeClaim
}

// Empty says that there is nothing to do before binding.
func (p *Plan) Empty() bool { return len(p.Matches) == 0 && len(p.Provision) == 0 }

// Unasked are the claims for which nobody has been told yet to make a volume.
func (p *Plan) Unasked() []*v1.PersistentVolumeClaim {
	var list []*v1.PersistentVolumeClaim
	for _, claim := range p.Provision {
		if claim.Annotations[volumehelpers.AnnSelectedNode] == "" {
			list = append(list, claim)
		}
	}
	return list
}

// Ledger keeps the reservations. It belongs to one goroutine.
type Ledger struct {
	objects *snapshot.Cluster
	// byVolume and byClaim are the two sides of each reservation.
	byVolume map[string]types.NamespacedName
	byClaim  map[types.NamespacedName]string
	// holders counts the pods in flight that rely on a reservation.
	holders map[types.NamespacedName]int
	// byClass lists the volumes of a class by name; nil after a change.
	byClass map[string][]*v1.PersistentVolume
}

// New returns an empty ledger.
func New(objects *snapshot.Cluster) *Ledger {
	return &Ledger{
		objects:  objects,
		byVolume: map[string]types.NamespacedName{},
		byClaim:  map[types.NamespacedName]string{},
		holders:  map[types.NamespacedName]int{},
	}
}

// Changed tells that an object of a resource has changed.
func (l *Ledger) Changed(resource string) {
	if resource == Volumes {
		l.byClass = nil
	}
}

// Needs says whether the pod has claims at all.
func Needs(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// Plan decides what the pod's claims need on a node. The error is the reason
// why the node will not do.
func (l *Ledger) Plan(pod *v1.Pod, node *v1.Node) (Plan, error) {
	var plan Plan
	taken := map[string]*v1.PersistentVolume{}
	for name := range l.byVolume {
		taken[name] = nil
	}
	claims, err := l.unbound(pod)
	if err != nil {
		return Plan{}, err
	}
	for _, claim := range claims {
		if err := l.planClaim(&plan, claim, node, taken); err != nil {
			return Plan{}, err
		}
	}
	return plan, nil
}

// unbound lists the pod's claims that have no volume yet, the smallest first,
// as predicates look at them.
func (l *Ledger) unbound(pod *v1.Pod) (list []*v1.PersistentVolumeClaim, err error) {
	for i := range pod.Spec.Volumes {
		claim, err := l.claimOf(pod, &pod.Spec.Volumes[i])
		if err != nil {
			return nil, err
		}
		if claim != nil && !bound(claim) && !slices.Contains(list, claim) {
			list = append(list, claim)
		}
	}
	slices.SortStableFunc(list, func(a, b *v1.PersistentVolumeClaim) int {
		x, y := a.Spec.Resources.Requests[v1.ResourceStorage], b.Spec.Resources.Requests[v1.ResourceStorage]
		return x.Cmp(y)
	})
	return list, nil
}

// claimOf returns the claim behind a volume, nil where it has none.
func (l *Ledger) claimOf(pod *v1.Pod, v *v1.Volume) (*v1.PersistentVolumeClaim, error) {
	var name string
	switch {
	case v.PersistentVolumeClaim != nil:
		name = v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		name = pod.Name + "-" + v.Name
	default:
		return nil, nil
	}
	claim, ok := l.objects.Object(Claims, pod.Namespace, name).(*v1.PersistentVolumeClaim)
	if !ok {
		return nil, fmt.Errorf("persistentvolumeclaim %q not found", name)
	}
	if claim.DeletionTimestamp != nil {
		return nil, fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
	}
	if v.Ephemeral != nil && !ownedBy(claim, pod) {
		return nil, fmt.Errorf("PVC %q was not created for pod %q (pod is not owner)", claim.Namespace+"/"+name, pod.Namespace+"/"+pod.Name)
	}
	return claim, nil
}

func ownedBy(claim *v1.PersistentVolumeClaim, pod *v1.Pod) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller && o.UID == pod.UID
	})
}

// bound says whether both sides of a claim have been joined for good.
func bound(claim *v1.PersistentVolumeClaim) bool {
	if claim.Spec.VolumeName == "" {
		return false
	}
	_, complete := claim.Annotations[volumehelpers.AnnBindCompleted]
	return complete || claim.Status.Phase == v1.ClaimBound
}

func (l *Ledger) planClaim(plan *Plan, claim *v1.PersistentVolumeClaim, node *v1.Node, taken map[string]*v1.PersistentVolume) error {
	key := keyOf(claim)
	if name, ok := l.byClaim[key]; ok {
		return l.rejoin(plan, claim, name, node)
	}
	if claim.Spec.VolumeName != "" {
		return fmt.Errorf("pod has unbound immediate PersistentVolumeClaims")
	}
	class, ok := l.objects.Object(Classes, "", volumehelpers.GetPersistentVolumeClaimClass(claim)).(*storagev1.StorageClass)
	if !ok || class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return fmt.Errorf("pod has unbound immediate PersistentVolumeClaims")
	}
	if selected := claim.Annotations[volumehelpers.AnnSelectedNode]; selected != "" {
		if selected != node.Name {
			return fmt.Errorf("node(s) are not the one selected for the pod's claims")
		}
		plan.Provision = append(plan.Provision, claim)
		return nil
	}
	volume, err := volumehelpers.FindMatchingVolume(claim, l.ofClass(class.Name), node, taken, true, true)
	if err != nil {
		return err
	}
	if volume != nil {
		taken[volume.Name] = volume
		plan.Matches = append(plan.Matches, Match{Claim: claim, Volume: volume})
		return nil
	}
	if class.Provisioner == "" || class.Provisioner == noProvisioner ||
		!allows(class.AllowedTopologies, node.Labels) {
		return fmt.Errorf("node(s) didn't find available persistent volumes to bind")
	}
	plan.Provision = append(plan.Provision, claim)
	return nil
}

// rejoin lets a further pod of a claim use the reservation that stands.
func (l *Ledger) rejoin(plan *Plan, claim *v1.PersistentVolumeClaim, name string, node *v1.Node) error {
	volume, ok := l.objects.Object(Volumes, "", name).(*v1.PersistentVolume)
	if !ok || volumehelpers.CheckNodeAffinity(volume, node.Labels) != nil {
		return fmt.Errorf("node(s) didn't match PersistentVolume's node affinity")
	}
	plan.Matches = append(plan.Matches, Match{Claim: claim, Volume: volume})
	return nil
}

// ofClass lists the volumes of a class by name.
func (l *Ledger) ofClass(class string) []*v1.PersistentVolume {
	if l.byClass == nil {
		l.byClass = map[string][]*v1.PersistentVolume{}
		for _, o := range l.objects.Objects(Volumes) {
			if volume, ok := o.(*v1.PersistentVolume); ok {
				of := volumehelpers.GetPersistentVolumeClass(volume)
				l.byClass[of] = append(l.byClass[of], volume)
			}
		}
		for _, volumes := range l.byClass {
			slices.SortFunc(volumes, func(a, b *v1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	return l.byClass[class]
}

// Reserve takes the plan's volumes.
func (l *Ledger) Reserve(plan *Plan) {
	for _, m := range plan.Matches {
		key := keyOf(m.Claim)
		l.byVolume[m.Volume.Name], l.byClaim[key] = key, m.Volume.Name
		l.holders[key]++
	}
}

// Release gives them back: the bind failed, or it is done and seen.
func (l *Ledger) Release(plan *Plan) {
	for _, m := range plan.Matches {
		key := keyOf(m.Claim)
		l.holders[key]--
		if l.holders[key] > 0 {
			continue
		}
		delete(l.holders, key)
		delete(l.byVolume, m.Volume.Name)
		delete(l.byClaim, key)
	}
}

// Reserved counts the reservations.
func (l *Ledger) Reserved() int { return len(l.byVolume) }

func keyOf(claim *v1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}
