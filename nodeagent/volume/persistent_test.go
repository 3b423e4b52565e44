package volume

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent/podspec"
)

// claimed is a pod with the volume v, of a claim that is bound to pv.
func claimed(pv *v1.PersistentVolume) (*store, *v1.Pod) {
	pv.Name, pv.Spec.ClaimRef = "pv", &v1.ObjectReference{UID: "c1"}
	s := &store{
		claims: map[string]*v1.PersistentVolumeClaim{"data": {ObjectMeta: metav1.ObjectMeta{UID: "c1"},
			Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound}}},
		volumes: map[string]*v1.PersistentVolume{"pv": pv},
	}
	return s, podWith(volumeOf("v", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}))
}

func hostVolume(path string, kind v1.HostPathType) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{}
	pv.Spec.HostPath = &v1.HostPathVolumeSource{Path: path, Type: &kind}
	return pv
}

// provisioned is a volume as the class standard makes it.
func provisioned(path string) *v1.PersistentVolume {
	pv := hostVolume(path, v1.HostPathDirectoryOrCreate)
	pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "berth.dev/hostpath"}
	return pv
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestAProvisionedFolderIsOpenToAll(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		volume func(path string) *v1.PersistentVolume
		there  bool
		want   fs.FileMode
	}{
		"a new folder of the provisioner": {provisioned, false, 0o777},
		"one that is there":               {provisioned, true, 0o700},
		"a folder of anybody else": {func(path string) *v1.PersistentVolume {
			return hostVolume(path, v1.HostPathDirectoryOrCreate)
		}, false, 0o755},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "volumes", "pvc-1")
			if test.there {
				if err := os.MkdirAll(path, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			s, p := claimed(test.volume(path))
			setUp(t, New(t.TempDir(), s, Plain{}), p)
			if got := modeOf(t, path); got.Perm() != test.want {
				t.Errorf("the folder has mode %v, want %v", got.Perm(), test.want)
			}
			if got := modeOf(t, filepath.Dir(path)); !test.there && got.Perm() != 0o755 {
				t.Errorf("the folder above has mode %v, want %v", got.Perm(), fs.FileMode(0o755))
			}
		})
	}
}

func TestFSGroupOwnsWhatIsTheClaimsAlone(t *testing.T) {
	t.Parallel()
	group, mismatch := int64(os.Getgid()), v1.FSGroupChangeOnRootMismatch
	for name, test := range map[string]struct {
		volume func(path string) *v1.PersistentVolume
		policy *v1.PodFSGroupChangePolicy
		root   fs.FileMode // before
		owned  bool        // the file within
	}{
		"a provisioned volume":                            {provisioned, nil, 0o755, true},
		"one whose folder is the group's":                 {provisioned, nil, fs.ModeSetgid | 0o775, true},
		"on a mismatch, a folder that is not the group's": {provisioned, &mismatch, 0o755, true},
		"on a mismatch, a folder that is":                 {provisioned, &mismatch, fs.ModeSetgid | 0o775, false},
		"a local volume": {func(path string) *v1.PersistentVolume {
			pv := &v1.PersistentVolume{}
			pv.Spec.Local = &v1.LocalVolumeSource{Path: path}
			return pv
		}, nil, 0o755, true},
		"a hostPath volume of anybody else": {func(path string) *v1.PersistentVolume {
			return hostVolume(path, v1.HostPathDirectoryOrCreate)
		}, nil, 0o755, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Chmod(dir, test.root); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s, p := claimed(test.volume(dir))
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group, FSGroupChangePolicy: test.policy}
			if err := New(t.TempDir(), s, Plain{}).SetUp(t.Context(), p, podspec.Facts{}); err != nil {
				t.Fatal(err)
			}
			if got := modeOf(t, filepath.Join(dir, "f")); (got == 0o660) != test.owned {
				t.Errorf("the file has mode %v, want the group's: %v", got, test.owned)
			}
		})
	}
}
