package binding

import (
	"errors"
	"fmt"
	"maps"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/volumes"
	"github.com/berth-dev/berth/host/store"

	v1 "k8s.io/api/core/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"
)

var errVolumeTaken = errors.New("volume is taken")

// volumeOps binds the claims of a pod to their volumes, both sides at once.
func (w *Writer) volumeOps(matches []volumes.Match) ([]store.Op, error) {
	var ops []store.Op
	for _, m := range matches {
		part, err := w.matchOps(m)
		if err != nil {
			return nil, fmt.Errorf("bind %s to volume %s: %w", m.Claim.Name, m.Volume.Name, err)
		}
		ops = append(ops, part...)
	}
	return ops, nil
}

func (w *Writer) matchOps(m volumes.Match) ([]store.Op, error) {
	claimKey := store.Key{Resource: volumes.Claims, Namespace: m.Claim.Namespace, Name: m.Claim.Name}
	volumeKey := store.Key{Resource: volumes.Volumes, Name: m.Volume.Name}
	claim, ok := get[*v1.PersistentVolumeClaim](w.store, claimKey)
	if !ok || claim.UID != m.Claim.UID || claim.DeletionTimestamp != nil {
		return nil, errors.New("claim is gone")
	}
	volume, ok := get[*v1.PersistentVolume](w.store, volumeKey)
	if !ok || volume.UID != m.Volume.UID || volume.DeletionTimestamp != nil {
		return nil, errors.New("volume is gone")
	}
	ref := volume.Spec.ClaimRef
	if ref != nil && !refersTo(ref, claim) {
		return nil, fmt.Errorf("%w by claim %s/%s", errVolumeTaken, ref.Namespace, ref.Name)
	}
	if claim.Spec.VolumeName != "" && claim.Spec.VolumeName != volume.Name {
		return nil, fmt.Errorf("claim has volume %s", claim.Spec.VolumeName)
	}
	if claim.Spec.VolumeName == volume.Name && ref != nil && ref.UID == claim.UID {
		return nil, nil
	}
	return []store.Op{
		{Kind: store.Update, Key: volumeKey, Object: boundVolume(volume, claim), Expect: revision(volume)},
		{Kind: store.Update, Key: claimKey, Object: boundClaim(claim, volume), Expect: revision(claim)},
	}, nil
}

// refersTo says whether a volume is kept for the claim: by its name alone, or by
// its UID too.
func refersTo(ref *v1.ObjectReference, claim *v1.PersistentVolumeClaim) bool {
	return ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

func get[T store.Object](s *store.Store, key store.Key) (T, bool) {
	o, ok := s.Get(key)
	if !ok {
		var none T
		return none, false
	}
	t, ok := o.(T)
	return t, ok
}

func boundVolume(volume *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	next := volume.DeepCopy()
	if next.Spec.ClaimRef == nil {
		next.Annotations = annotated(next.Annotations, volumehelpers.AnnBoundByController)
	}
	next.Spec.ClaimRef = &v1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
		UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	next.Status.Phase = v1.VolumeBound
	return next
}

func boundClaim(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) *v1.PersistentVolumeClaim {
	next := claim.DeepCopy()
	next.Annotations = annotated(next.Annotations, volumehelpers.AnnBoundByController)
	next.Annotations = annotated(next.Annotations, volumehelpers.AnnBindCompleted)
	next.Spec.VolumeName = volume.Name
	next.Status.Phase = v1.ClaimBound
	next.Status.AccessModes = volume.Spec.AccessModes
	next.Status.Capacity = volume.Spec.Capacity.DeepCopy()
	return next
}

func annotated(annotations map[string]string, key string) map[string]string {
	next := maps.Clone(annotations)
	if next == nil {
		next = map[string]string{}
	}
	next[key] = "yes"
	return next
}

// provisionOps names the node to whoever makes volumes, and binds those that exist.
func (w *Writer) provisionOps(p *schedule.Provision) ([]store.Op, error) {
	ops, err := w.volumeOps(p.Volumes)
	if err != nil {
		return nil, err
	}
	for _, was := range p.Claims {
		key := store.Key{Resource: volumes.Claims, Namespace: was.Namespace, Name: was.Name}
		claim, ok := get[*v1.PersistentVolumeClaim](w.store, key)
		if !ok || claim.UID != was.UID || claim.Spec.VolumeName != "" || claim.Annotations[volumehelpers.AnnSelectedNode] != "" {
			continue
		}
		next := claim.DeepCopy()
		if next.Annotations == nil {
			next.Annotations = map[string]string{}
		}
		next.Annotations[volumehelpers.AnnSelectedNode] = p.Node
		ops = append(ops, store.Op{Kind: store.Update, Key: key, Object: next, Expect: revision(claim)})
	}
	return ops, nil
}
