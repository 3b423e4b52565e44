package volume

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestWhatComesFromTheAPIIsReadOnly: the next refresh would undo what is written.
func TestWhatComesFromTheAPIIsReadOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		source   v1.VolumeSource
		readOnly bool
	}{
		"a config map":       {v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}, true},
		"a secret":           {v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}, true},
		"the downward API":   {v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}, true},
		"a projected volume": {v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}, true},
		"an empty folder":    {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := podWith(volumeOf("v", test.source))
			c := &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}}}
			mounts, _, err := New(t.TempDir(), nil, Plain{}, noLabels).Mounts(p, c, nil, false)
			if err != nil || len(mounts) == 0 || mounts[0].ContainerPath != "/v" {
				t.Fatalf("Mounts = %+v, %v", mounts, err)
			}
			if mounts[0].ReadOnly != test.readOnly {
				t.Errorf("read-only = %v, want %v", mounts[0].ReadOnly, test.readOnly)
			}
		})
	}
}

func TestMountsSayWhetherTheyAreReadOnlyRecursively(t *testing.T) {
	t.Parallel()
	enabled := v1.RecursiveReadOnlyEnabled
	p := podWith(volumeOf("v", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), volumeOf("w", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	c := &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{
		{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: &enabled}, {Name: "w", MountPath: "/w", ReadOnly: true},
	}}
	v := New(t.TempDir(), nil, Plain{}, noLabels)
	mounts, _, err := v.Mounts(p, c, nil, true)
	if err != nil || len(mounts) != 2 || !mounts[0].RecursiveReadOnly || !mounts[0].ReadOnly || mounts[1].RecursiveReadOnly {
		t.Errorf("Mounts = %+v, %v", mounts, err)
	}
	const why = `volume "v" requested recursive read-only mode, but it is not supported by the runtime`
	if _, _, err := v.Mounts(p, c, nil, false); err == nil || err.Error() != why {
		t.Errorf("Mounts: %v, want %s", err, why)
	}
}
