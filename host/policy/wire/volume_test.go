package wire

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// As in kube-scheduler, which translates it to CSI, a disk of Azure's is told by
// its URI: two of one name may be different ones.
func TestAnAzureDiskIsToldByItsURI(t *testing.T) {
	t.Parallel()
	disk := &v1.AzureDiskVolumeSource{DiskName: "data", DataDiskURI: "/subscriptions/s/disks/data"}
	v, ok := volumeOf(&v1.Pod{}, &v1.Volume{VolumeSource: v1.VolumeSource{AzureDisk: disk}})
	if !ok || v.id != disk.DataDiskURI {
		t.Errorf("a volume in a pod has id %q, %v, want %q", v.id, ok, disk.DataDiskURI)
	}
	if v := persistentSource(&v1.PersistentVolumeSource{AzureDisk: disk}); v.id != disk.DataDiskURI {
		t.Errorf("a persistent one has id %q, want %q", v.id, disk.DataDiskURI)
	}
}
