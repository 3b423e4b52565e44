package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	volumehelpers "k8s.io/component-helpers/storage/volume"
)

// provisionedBy is the annotation that names who made a volume, and provisioner
// what a StorageClass calls Berth's own.
const (
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	provisioner   = "berth.dev/hostpath"
)

// claim finds the volume that a claim is bound to.
func (v *Volumes) claim(ctx context.Context, p *v1.Pod, volume, name string, readOnly bool) error {
	claim, err := v.src.Claim(ctx, p.Namespace, name)
	if err == nil {
		err = v.usable(p, volume, claim)
	}
	if err != nil {
		return err
	}
	pv, err := v.src.Volume(ctx, claim.Spec.VolumeName)
	if err != nil {
		return err
	}
	if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		return fmt.Errorf("volume %s is bound to another claim", pv.Name)
	}
	at := place{ReadOnly: readOnly, Block: claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == v1.PersistentVolumeBlock}
	if at.Path, err = v.prepare(p, pv, at); err != nil {
		return err
	}
	return v.put(string(p.UID), volume, at)
}

// prepare gives where a volume is, ready to be mounted in a pod as at says, or says why
// it can not be.
func (v *Volumes) prepare(p *v1.Pod, pv *v1.PersistentVolume, at place) (string, error) {
	if err := v.isHere(pv); err != nil {
		return "", err
	}
	if err := mountOptions(pv, at.Block); err != nil {
		return "", err
	}
	path, err := pathOf(pv)
	if err != nil || at.Block {
		return path, err
	}
	if pv.Spec.Local != nil {
		if err := hasFiles(path); err != nil {
			return "", fmt.Errorf("volume %s: %w", pv.Name, err)
		}
	}
	if at.ReadOnly || pv.Spec.Local == nil && !isProvisioned(pv) {
		return path, nil
	}
	return path, ownByGroup(path, fsGroup(p), changePolicy(p))
}

func changePolicy(p *v1.Pod) v1.PodFSGroupChangePolicy {
	if sc := p.Spec.SecurityContext; sc != nil && sc.FSGroupChangePolicy != nil {
		return *sc.FSGroupChangePolicy
	}
	return v1.FSGroupChangeAlways
}

// usable says why a pod may not have a volume of the claim. A pod that has begun
// keeps it while the claim is being deleted.
func (v *Volumes) usable(p *v1.Pod, volume string, claim *v1.PersistentVolumeClaim) error {
	if slices.ContainsFunc(p.Spec.Volumes, func(vol v1.Volume) bool { return vol.Name == volume && vol.Ephemeral != nil }) {
		if err := ephemeral.VolumeIsForPod(p, claim); err != nil {
			return err
		}
	}
	if _, there := v.at(p, volume); claim.DeletionTimestamp != nil && !there {
		return fmt.Errorf("claim %s/%s is being deleted", claim.Namespace, claim.Name)
	}
	if claim.Spec.VolumeName == "" || claim.Status.Phase != v1.ClaimBound {
		return fmt.Errorf("claim %s/%s is not bound yet", claim.Namespace, claim.Name)
	}
	return nil
}

// pathOf is where a volume is on this machine.
func pathOf(pv *v1.PersistentVolume) (path string, err error) {
	switch {
	case pv.Spec.Local != nil:
		path = pv.Spec.Local.Path
	case pv.Spec.HostPath != nil:
		if isProvisioned(pv) {
			if err := makeOpen(pv.Spec.HostPath.Path); err != nil {
				return "", err
			}
		}
		if err := hostPath(pv.Spec.HostPath); err != nil {
			return "", err
		}
		path = pv.Spec.HostPath.Path
	default:
		return "", fmt.Errorf("volume %s: only local and hostPath volumes can be mounted", pv.Name)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("volume %s: %w", pv.Name, err)
	}
	return path, nil
}

// isProvisioned says whether Berth made the volume for its claim: a folder that
// is nobody else's.
func isProvisioned(pv *v1.PersistentVolume) bool {
	h := pv.Spec.HostPath
	return pv.Annotations[provisionedBy] == provisioner && h != nil && h.Type != nil && *h.Type == v1.HostPathDirectoryOrCreate
}

// makeOpen makes a folder that every user may write to; one that is there stays
// as it is.
func makeOpen(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, 0o777) // whatever the umask
}

// isHere says why a volume may not be mounted on this node: a pod that was bound
// past the scheduler would find an empty folder in its place.
func (v *Volumes) isHere(pv *v1.PersistentVolume) error {
	if err := volumehelpers.CheckNodeAffinity(pv, v.labels()); err != nil {
		return fmt.Errorf("volume %s: its node affinity does not match this node: %w", pv.Name, err)
	}
	return nil
}

// hasFiles refuses a disk as a volume of files: mounted as it is, containers
// would find its device.
func hasFiles(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if isOf(v1.HostPathBlockDev, info.Mode()) {
		return fmt.Errorf("%s is a block device, and Berth does not format devices: mount it and name its folder, or ask for volumeMode Block", path)
	}
	return nil
}

// mountOptions refuses options of a volume of files: none is given to the mount
// of a folder, and one such as ro must not be lost.
func mountOptions(pv *v1.PersistentVolume, block bool) error {
	_, old := pv.Annotations[v1.MountOptionAnnotation]
	if block || !old && len(pv.Spec.MountOptions) == 0 {
		return nil
	}
	if pv.Spec.Local != nil {
		return fmt.Errorf("volume %s: Berth gives local volumes no mount options: mount the folder with them, and take them out of the volume", pv.Name)
	}
	return fmt.Errorf("volume %s: mount options are not supported for this volume type", pv.Name)
}
