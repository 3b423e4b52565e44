package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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

func localVolume(path string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{}
	pv.Spec.Local = &v1.LocalVolumeSource{Path: path}
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
			setUp(t, New(t.TempDir(), s, Plain{}, noLabels), p)
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
	readOnly := func(c *v1.PersistentVolumeClaimVolumeSource) { c.ReadOnly = true }
	for name, test := range map[string]struct {
		volume func(path string) *v1.PersistentVolume
		policy *v1.PodFSGroupChangePolicy
		root   fs.FileMode // before
		owned  bool        // the file within
		change func(*v1.PersistentVolumeClaimVolumeSource)
	}{
		"a provisioned volume":                            {provisioned, nil, 0o755, true, nil},
		"one whose folder is the group's":                 {provisioned, nil, fs.ModeSetgid | 0o775, true, nil},
		"on a mismatch, a folder that is not the group's": {provisioned, &mismatch, 0o755, true, nil},
		"on a mismatch, a folder that is":                 {provisioned, &mismatch, fs.ModeSetgid | 0o775, false, nil},
		"a local volume":                                  {localVolume, nil, 0o755, true, nil},
		"a hostPath volume of anybody else": {func(path string) *v1.PersistentVolume {
			return hostVolume(path, v1.HostPathDirectoryOrCreate)
		}, nil, 0o755, false, nil},
		"a local volume that is only read":    {localVolume, nil, 0o755, false, readOnly},
		"a provisioned one that is only read": {provisioned, nil, 0o755, false, readOnly},
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
			if test.change != nil {
				test.change(p.Spec.Volumes[0].PersistentVolumeClaim)
			}
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group, FSGroupChangePolicy: test.policy}
			if err := New(t.TempDir(), s, Plain{}, noLabels).SetUp(t.Context(), p, podspec.Facts{}); err != nil {
				t.Fatal(err)
			}
			if got := modeOf(t, filepath.Join(dir, "f")); (got == 0o660) != test.owned {
				t.Errorf("the file has mode %v, want the group's: %v", got, test.owned)
			}
		})
	}
}

func TestAVolumeOfAnotherNodeIsRefused(t *testing.T) {
	t.Parallel()
	const why = `volume "v": volume pv: its node affinity does not match this node: no matching NodeSelectorTerms`
	on := func(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	here, away := on(v1.LabelHostname, v1.NodeSelectorOpIn, "n1"), on(v1.LabelHostname, v1.NodeSelectorOpIn, "n2")
	for name, test := range map[string]struct {
		affinity *v1.VolumeNodeAffinity
		want     string
	}{
		"no affinity":      {nil, ""},
		"none required":    {&v1.VolumeNodeAffinity{}, ""},
		"this node":        {&v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{here}}}, ""},
		"one of two terms": {&v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{away, here}}}, ""},
		"another node":     {&v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{away}}}, why},
		"a label that is missing": {&v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{on("disk", v1.NodeSelectorOpExists)}}}, why},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "pvc-1")
			pv := provisioned(path)
			pv.Spec.NodeAffinity = test.affinity
			s, p := claimed(pv)
			labels := func() map[string]string { return map[string]string{v1.LabelHostname: "n1"} }
			err := New(t.TempDir(), s, Plain{}, labels).SetUp(t.Context(), p, podspec.Facts{})
			if test.want == "" {
				if err != nil {
					t.Errorf("SetUp: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("SetUp: %v, want %q", err, test.want)
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("a folder was made all the same")
			}
		})
	}
}

func TestADiskIsNoVolumeOfFiles(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	err := unix.Mknod(disk, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0)))
	if errors.Is(err, unix.EPERM) {
		t.Skip("making a device needs root")
	}
	if err != nil {
		t.Fatal(err)
	}
	group, block := int64(4242), v1.PersistentVolumeBlock
	for name, test := range map[string]struct {
		mode *v1.PersistentVolumeMode
		want string
	}{
		"of files":  {nil, "volume pv: " + disk + " is a block device, and Berth does not format devices"},
		"of blocks": {&block, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := claimed(localVolume(disk))
			s.claims["data"].Spec.VolumeMode = test.mode
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
			err := New(t.TempDir(), s, Plain{}, noLabels).SetUp(t.Context(), p, podspec.Facts{})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("SetUp: %v, want %q", err, test.want)
			}
			if got := modeOf(t, disk).Perm(); got != 0o600 || owned(disk, group) {
				t.Errorf("the device has mode %v", got)
			}
		})
	}
}

func TestMountOptionsAreRefused(t *testing.T) {
	t.Parallel()
	const why = "volume pv: mount options are not supported for this volume type"
	options := func(pv *v1.PersistentVolume) { pv.Spec.MountOptions = []string{"ro", "noexec"} }
	none := func(*v1.PersistentVolume) {}
	for name, test := range map[string]struct {
		volume func(path string) *v1.PersistentVolume
		change func(*v1.PersistentVolume)
		want   string
	}{
		"of a provisioned volume": {provisioned, options, why},
		"of a hostPath volume, by the old annotation": {provisioned, func(pv *v1.PersistentVolume) {
			pv.Annotations[v1.MountOptionAnnotation] = "ro"
		}, why},
		"of a local volume":         {localVolume, options, "volume pv: Berth gives local volumes no mount options"},
		"none of a hostPath volume": {provisioned, none, ""},
		"none of a local volume":    {localVolume, none, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pv := test.volume(t.TempDir())
			test.change(pv)
			s, p := claimed(pv)
			err := New(t.TempDir(), s, Plain{}, noLabels).SetUp(t.Context(), p, podspec.Facts{})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("SetUp: %v, want %q", err, test.want)
			}
		})
	}
}
