package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/nodeagent/podspec"
)

// store is a small API.
type store struct {
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
	claims     map[string]*v1.PersistentVolumeClaim
	volumes    map[string]*v1.PersistentVolume
	tokens     int
	life       time.Duration
	fail       error
}

func find[T any](kind string, m map[string]*T, name string) (*T, error) {
	if obj, ok := m[name]; ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

func (s *store) ConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	return find("configmaps", s.configMaps, name)
}
func (s *store) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	return find("secrets", s.secrets, name)
}
func (s *store) Claim(_ context.Context, _, name string) (*v1.PersistentVolumeClaim, error) {
	return find("persistentvolumeclaims", s.claims, name)
}
func (s *store) Volume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	return find("persistentvolumes", s.volumes, name)
}
func (s *store) Services(string) ([]*v1.Service, error) { return nil, nil }
func (s *store) Token(_ context.Context, _, account string, req *authv1.TokenRequest) (*authv1.TokenRequest, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	s.tokens++
	req.Status = authv1.TokenRequestStatus{Token: account + strings.Repeat("!", s.tokens), ExpirationTimestamp: metav1.NewTime(time.Now().Add(s.life))}
	return req, nil
}

func noLabels() map[string]string { return nil }

func podWith(volumes ...v1.Volume) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u1", Labels: map[string]string{"app": "web"}}}
	p.Spec.Volumes = volumes
	p.Spec.HostIPC = true // no /dev/shm
	p.Spec.Containers = []v1.Container{{Name: "c"}}
	return p
}

func volumeOf(name string, src v1.VolumeSource) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: src}
}

func setUp(t *testing.T, v *Volumes, p *v1.Pod) {
	t.Helper()
	if err := v.SetUp(t.Context(), p, podspec.Facts{}); err != nil {
		t.Fatalf("SetUp: %v", err)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if strings.HasPrefix(rel, "..") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[rel] = string(data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConfigMapIsReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	s := &store{configMaps: map[string]*v1.ConfigMap{"cm": {Data: map[string]string{"a": "1", "b": "2"}}}}
	v := New(t.TempDir(), s, Plain{}, noLabels)
	p := podWith(volumeOf("v", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}}}))
	setUp(t, v, p)
	dir := v.dir("u1", "v")
	if got := contents(t, dir); got["a"] != "1" || got["b"] != "2" || len(got) != 2 {
		t.Errorf("content %v", got)
	}
	before, _ := os.Readlink(filepath.Join(dir, dataLink))
	setUp(t, v, p)
	if again, _ := os.Readlink(filepath.Join(dir, dataLink)); again != before {
		t.Errorf("unchanged content was written anew")
	}
	s.configMaps["cm"] = &v1.ConfigMap{Data: map[string]string{"a": "new", "c": "3"}}
	if err := v.Refresh(t.Context(), p, podspec.Facts{}); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir); got["a"] != "new" || got["c"] != "3" || len(got) != 2 {
		t.Errorf("content %v", got)
	}
	if entries, _ := filepath.Glob(filepath.Join(dir, "..2*")); len(entries) != 1 {
		t.Errorf("versions %v, want one", entries)
	}
	if err := v.TearDown("u1"); err != nil {
		t.Fatal(err)
	}
	if left, _ := v.Pods(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	if err := v.Refresh(t.Context(), p, podspec.Facts{}); err != nil {
		t.Fatal(err)
	}
	if left, _ := v.Pods(); len(left) != 0 {
		t.Errorf("what was torn down came back: %v", left)
	}
}

func TestItemsModesAndOptional(t *testing.T) {
	t.Parallel()
	yes, mode, item := true, int32(0o440), int32(0o400)
	s := &store{secrets: map[string]*v1.Secret{"s": {Data: map[string][]byte{"k": []byte("v"), "l": []byte("w")}}}}
	v := New(t.TempDir(), s, Plain{}, noLabels)
	p := podWith(
		volumeOf("v", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", DefaultMode: &mode,
			Items: []v1.KeyToPath{{Key: "k", Path: "deep/er/k"}, {Key: "l", Path: "l", Mode: &item}}}}),
		volumeOf("none", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "absent", Optional: &yes}}))
	setUp(t, v, p)
	dir := v.dir("u1", "v")
	if got := contents(t, dir); len(got) != 1 { // deep is a link, which the walk does not follow
		t.Errorf("content %v", got)
	}
	for path, want := range map[string]fs.FileMode{"deep/er/k": 0o440, "l": 0o400} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", path, info, err, want)
		}
	}
	if got := contents(t, v.dir("u1", "none")); len(got) != 0 {
		t.Errorf("an absent secret has content %v", got)
	}
}

func TestRefusedVolumes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := v1.HostPathDirectory
	for name, test := range map[string]struct {
		src  v1.VolumeSource
		want string
	}{
		"a secret that is not there":      {v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "absent"}}, "not found"},
		"a key that is not there":         {v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", Items: []v1.KeyToPath{{Key: "x", Path: "x"}}}}, "non-existent secret key"},
		"a path that leads out":           {v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", Items: []v1.KeyToPath{{Key: "k", Path: "../x"}}}}, "leads out"},
		"a hostPath of another type":      {v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: file, Type: &dir}}, "is not a Directory"},
		"an unbound claim":                {v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "open"}}, "not bound yet"},
		"a claim that goes":               {v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "going"}}, "is being deleted"},
		"a claim that somebody else made": {v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}, "was not created for pod"},
		"a kind that is not implemented":  {v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}, "not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &store{secrets: map[string]*v1.Secret{"s": {Data: map[string][]byte{"k": nil}}}, claims: map[string]*v1.PersistentVolumeClaim{
				"open": {}, "p-v": {}, "going": {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}},
			}}
			err := New(t.TempDir(), s, Plain{}, noLabels).SetUp(t.Context(), podWith(volumeOf("v", test.src)), podspec.Facts{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("SetUp: %v, want %q", err, test.want)
			}
		})
	}
}

func TestAHostPathWithoutTypeIsMadeWhereNothingIs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file, dangling := filepath.Join(root, "file"), filepath.Join(root, "dangling")
	if err := errors.Join(os.WriteFile(file, []byte("keep"), 0o600), os.Symlink(filepath.Join(root, "gone"), dangling)); err != nil {
		t.Fatal(err)
	}
	unset := v1.HostPathUnset
	for name, test := range map[string]struct {
		path string
		kind *v1.HostPathType
		want fs.FileMode
	}{
		"nothing there, no type":       {filepath.Join(root, "a", "b"), nil, fs.ModeDir | 0o755},
		"nothing there, an empty type": {filepath.Join(root, "c"), &unset, fs.ModeDir | 0o755},
		"a file":                       {file, nil, 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := podWith(volumeOf("v", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: test.path, Type: test.kind}}))
			setUp(t, New(t.TempDir(), &store{}, Plain{}, noLabels), p)
			if got := modeOf(t, test.path); got != test.want {
				t.Errorf("%s has mode %v, want %v", test.path, got, test.want)
			}
		})
	}
	p := podWith(volumeOf("v", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dangling}}))
	if err := New(t.TempDir(), &store{}, Plain{}, noLabels).SetUp(t.Context(), p, podspec.Facts{}); err == nil {
		t.Error("a link that leads nowhere is mounted")
	}
}

func TestClaimsAreFoundAgainAfterARestart(t *testing.T) {
	t.Parallel()
	disk, root := t.TempDir(), t.TempDir()
	s := &store{
		claims: map[string]*v1.PersistentVolumeClaim{"data": {ObjectMeta: metav1.ObjectMeta{UID: "c1"},
			Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound}}},
		volumes: map[string]*v1.PersistentVolume{"pv": {Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{UID: "c1"},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}}}}},
	}
	p := podWith(volumeOf("v", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: true}}))
	setUp(t, New(root, s, Plain{}, noLabels), p)
	c := &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "data"}}}
	s.claims["data"].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	setUp(t, New(root, s, Plain{}, noLabels), p) // it has begun: the claim goes after it
	v := New(root, &store{}, Plain{}, noLabels)
	mounts, _, err := v.Mounts(p, c, nil, false)
	if err != nil || len(mounts) != 1 || mounts[0].HostPath != disk || !mounts[0].ReadOnly || mounts[0].ContainerPath != "/data" {
		t.Errorf("Mounts = %+v, %v", mounts, err)
	}
	if err := os.WriteFile(filepath.Join(disk, "keep"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.TearDown("u1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(disk, "keep")); err != nil {
		t.Errorf("the claim's data is gone: %v", err)
	}
}

func TestTokensAreKeptAndRenewed(t *testing.T) {
	t.Parallel()
	s := &store{life: time.Hour}
	v := New(t.TempDir(), s, Plain{}, noLabels)
	p := podWith(volumeOf("v", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
	}}}))
	setUp(t, v, p)
	setUp(t, v, p)
	if got := contents(t, v.dir("u1", "v")); got["token"] != "default!" || got["labels"] != `app="web"` || s.tokens != 1 {
		t.Errorf("content %v after %d requests", got, s.tokens)
	}
	v.mu.Lock()
	for k, tok := range v.tokens {
		tok.renew = time.Now().Add(-time.Second)
		v.tokens[k] = tok
	}
	v.mu.Unlock()
	s.fail = errors.New("the API is away")
	if err := v.Refresh(t.Context(), p, podspec.Facts{}); err != nil {
		t.Errorf("a token that still holds: %v", err)
	}
	s.fail = nil
	if err := v.Refresh(t.Context(), p, podspec.Facts{}); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, v.dir("u1", "v")); got["token"] != "default!!" {
		t.Errorf("token %q, want the second", got["token"])
	}
}

func TestSubPathsStayInTheirVolume(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	for _, dir := range []string{"in/side"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": outside, "up": "../..", "good": "in", "in/loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for sub, ok := range map[string]bool{
		"in": true, "in/side": true, "good/side": true, "new/folders": true, "good/new": true,
		"out": false, "out/x": false, "up/etc": false, "../x": false, "/etc": false, "in/loop": false, "in/../../x": false, "": false,
	} {
		f, err := openBelow(root, sub)
		if (err == nil) != ok {
			t.Errorf("openBelow(%q): %v, want ok %v", sub, err, ok)
		}
		if f != nil {
			f.Close()
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("something was made outside: %v", entries)
	}
}

func TestAFolderForASubPathLeavesTheModesOfOthersAlone(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(at, outside string) error{
		"a link to a file outside":   func(at, outside string) error { return os.Symlink(outside, at) },
		"a folder of a container":    func(at, _ string) error { return os.Mkdir(at, 0o700) },
		"a file that is linked hard": func(at, outside string) error { return os.Link(outside, at) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(outside, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(root, 0o777); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(root, "x")
			if err := put(at, outside); err != nil {
				t.Fatal(err)
			}
			before := modeOf(t, at)
			dir, err := os.Open(root)
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			if err := mkdirBelow(dir, "", "x"); err != nil {
				t.Fatal(err)
			}
			if got := modeOf(t, at); got != before {
				t.Errorf("the mode is %v, want %v", got, before)
			}
		})
	}
}

func TestAFolderForASubPathIsAsOpenAsTheOneItLiesIn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Chmod(root, 0o777|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	f, err := openBelow(root, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, dir := range []string{"a", "a/b"} {
		if got := modeOf(t, filepath.Join(root, dir)); got != 0o777|fs.ModeSetgid|fs.ModeDir {
			t.Errorf("%s has mode %v", dir, got)
		}
	}
}

func TestEmptyDir(t *testing.T) {
	t.Parallel()
	q := resource.MustParse("10Mi")
	v := New(t.TempDir(), &store{}, Plain{}, noLabels)
	p := podWith(volumeOf("disk", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &q}}),
		volumeOf("mem", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &q}}))
	setUp(t, v, p)
	if info, err := os.Stat(v.dir("u1", "disk")); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("mode %v, %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(v.dir("u1", "disk"), "f"), make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	setUp(t, v, p)
	if size, err := v.Size("u1", "disk", 1<<30); err != nil || size < 100_000 {
		t.Errorf("Size = %d, %v", size, err)
	}
}

// sizes notes how large each tmpfs is.
type sizes struct {
	Plain
	of map[string]int64
}

func (s sizes) Tmpfs(dir string, size int64, mode fs.FileMode) error {
	s.of[filepath.Base(dir)] = size
	return s.Plain.Tmpfs(dir, size, mode)
}

// A volume in memory is no larger than anything of what bounds it.
func TestAVolumeInMemoryIsBounded(t *testing.T) {
	t.Parallel()
	memory := func(size string) v1.ResourceList { return v1.ResourceList{v1.ResourceMemory: resource.MustParse(size)} }
	for name, test := range map[string]struct {
		volume    string
		pod, node v1.ResourceList
		want      int64
	}{
		"by the node's memory for pods": {"", nil, memory("8Gi"), 8 << 30},
		"by its pod's limit":            {"", memory("1Gi"), memory("8Gi"), 1 << 30},
		"by its own":                    {"10Mi", memory("1Gi"), memory("8Gi"), 10 << 20},
		"by the smallest, the pod's":    {"2Gi", memory("1Gi"), memory("8Gi"), 1 << 30},
		"by the smallest, the node's":   {"16Gi", nil, memory("8Gi"), 8 << 30},
		"by the kernel alone":           {"", nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
			if test.volume != "" {
				q := resource.MustParse(test.volume)
				e.SizeLimit = &q
			}
			p := podWith(volumeOf("mem", v1.VolumeSource{EmptyDir: e}))
			p.Spec.Containers[0].Resources.Limits = test.pod
			mounts := sizes{of: map[string]int64{}}
			if err := New(t.TempDir(), &store{}, mounts, noLabels).SetUp(t.Context(), p, podspec.Facts{Allocatable: test.node}); err != nil {
				t.Fatal(err)
			}
			if got := mounts.of["mem"]; got != test.want {
				t.Errorf("it has %d bytes, want %d", got, test.want)
			}
		})
	}
}

func TestTearDownWantsAName(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	v := New(filepath.Join(root, "pods"), &store{}, Plain{}, noLabels)
	for _, uid := range []string{"", ".", "..", "../x", "a/b", "/"} {
		if err := v.TearDown(uid); err == nil {
			t.Errorf("TearDown(%q) succeeds", uid)
		}
	}
}

func TestKernelMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("mounting needs root: only the refusal is checked")
		if err := (Kernel{}).Tmpfs(filepath.Join(t.TempDir(), "m"), 1<<20, 0o755); err == nil {
			t.Errorf("a mount without privileges succeeds")
		}
		return
	}
	root := t.TempDir()
	k := Kernel{}
	mem := filepath.Join(root, "u 1", "mem") // a space, which mountinfo escapes
	for range 2 {
		if err := k.Tmpfs(mem, 1<<20, 0o1777); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(mem)
	if err != nil || info.Mode()&os.ModeSticky == 0 || info.Mode().Perm() != 0o777 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(mem, "big"), make([]byte, 2<<20), 0o600); err == nil {
		t.Errorf("the size is not limited")
	}
	huge := filepath.Join(root, "u 1", "huge")
	for range 2 {
		if err := k.Hugepages(huge, 2<<20); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Hugepages(huge, 1<<30); err == nil || !strings.Contains(err.Error(), "pagesize '2097152' and requested medium size '1073741824' differ") {
		t.Errorf("pages of another size at the same place: %v", err)
	}
	if info, err := os.Stat(huge); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	f, err := os.Open(mem)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Bind(f, filepath.Join(root, "u 1", "sub", "0")); err != nil {
		t.Errorf("Bind: %v", err)
	}
	f.Close()
	if points, err := mountsBelow(root); err != nil || len(points) != 3 {
		t.Errorf("mounts %v, %v; want 3", points, err)
	}
	if err := k.UnmountBelow(root); err != nil {
		t.Fatal(err)
	}
	if points, err := mountsBelow(root); err != nil || len(points) != 0 {
		t.Errorf("mounts %v, %v; want none", points, err)
	}
}

// Where the machine's mounts are shared, what is bound of them is unmounted without
// them.
func TestTheMachinesMountsOutliveThoseOfPods(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("mounting needs root")
		return
	}
	root, k := t.TempDir(), Kernel{}
	disks, pods := filepath.Join(root, "mnt"), filepath.Join(root, "pods")
	t.Cleanup(func() { _ = k.UnmountBelow(root) })
	mount := func(dir string) {
		t.Helper()
		if err := k.Tmpfs(dir, 0, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
			t.Fatal(err)
		}
	}
	mount(disks)
	mount(filepath.Join(disks, "a"))
	f, err := os.Open(disks)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := k.Bind(f, filepath.Join(pods, "0")); err != nil {
		t.Fatal(err)
	}
	mount(filepath.Join(disks, "b")) // comes to the pod, too
	if points, err := mountsBelow(pods); err != nil || len(points) != 2 {
		t.Errorf("mounts of the pod: %v, %v; want 2", points, err)
	}
	if err := k.UnmountBelow(pods); err != nil {
		t.Fatal(err)
	}
	if points, err := mountsBelow(disks); err != nil || len(points) != 3 {
		t.Errorf("mounts of the machine: %v, %v; want all 3", points, err)
	}
}

// pageMounter notes the sizes of pages that were mounted.
type pageMounter struct {
	Plain
	sizes []int64
}

func (m *pageMounter) Hugepages(dir string, size int64) error {
	m.sizes = append(m.sizes, size)
	return os.MkdirAll(dir, 0o755)
}

func TestEmptyDirOfHugePages(t *testing.T) {
	t.Parallel()
	m := &pageMounter{}
	v := New(t.TempDir(), &store{}, m, noLabels)
	p := podWith(volumeOf("pages", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}}))
	const missing = `MountVolume.SetUp failed for volume "pages": medium HugePages-2Mi: hugePages storage requested, but there is no resource request for huge pages`
	if err := v.SetUp(t.Context(), p, podspec.Facts{}); err == nil || err.Error() != missing {
		t.Errorf("SetUp: %v, want %s", err, missing)
	}
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}
	setUp(t, v, p)
	if len(m.sizes) != 1 || m.sizes[0] != 2<<20 {
		t.Errorf("mounted pages of %v", m.sizes)
	}
	p.Spec.Volumes[0].EmptyDir.Medium = "Cheese"
	if err := v.SetUp(t.Context(), p, podspec.Facts{}); err == nil || !strings.Contains(err.Error(), `medium "Cheese" is not supported`) {
		t.Errorf("SetUp: %v", err)
	}
}
