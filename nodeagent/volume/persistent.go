package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"
)

// provisionedBy is the annotation that names who made a volume, and provisioner
// what a StorageClass calls Berth's own.
const (
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	provisioner   = "berth.dev/hostpath"
)

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
