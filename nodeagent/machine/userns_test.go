package machine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/nodeagent/userns"
)

// TestUserNamespace: in the pod user 1000 and root are who they seem to be, on
// its volumes too; on the machine they are nobody that anything belongs to.
func TestUserNamespace(t *testing.T) {
	n := newNode(t)
	no, user, group := false, int64(1000), int64(2000)
	p := web("own")
	p.Spec.HostUsers = &no
	p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &user, FSGroup: &group}
	one := resource.MustParse("1Mi")
	p.Spec.Volumes = []v1.Volume{
		{Name: "disk", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &one}}},
		{Name: "image", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: imageName, PullPolicy: v1.PullNever}}},
		{Name: "facts", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "name", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		}}}},
	}
	app := &p.Spec.Containers[0]
	app.VolumeMounts = []v1.VolumeMount{
		{Name: "disk", MountPath: "/disk"}, {Name: "memory", MountPath: "/memory"},
		{Name: "image", MountPath: "/image"}, {Name: "facts", MountPath: "/facts"},
	}
	app.Command[2] = `set -e; mkdir /disk/www; touch /disk/file /memory/file
cd /disk/www
{ cat /facts/name; echo; stat -c %u:%g /disk/file /memory/file; stat -c %u:%g /image/bin /etc/hosts /bin/busybox
  awk '{print $1, $3}' /proc/self/uid_map; ls /sys/class/net; } > index.html
exec httpd -f -p 80 -h /disk/www`
	n.create(p)
	got := n.awaitReady("own")
	want := strings.Join([]string{"own", "1000:2000", "1000:2000", "0:0", "0:0", "0:0", fmt.Sprint("0 ", userns.Length), "eth0", "lo"}, "\n")
	if body := ask(t, got); body != want {
		t.Errorf("in the pod:\n%s\nwant:\n%s", body, want)
	}

	list, err := n.machine.Runtime.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Containers) != 1 || len(list.Sandboxes) != 1 {
		t.Fatalf("listed %+v", list)
	}
	app1, pause := hostUID(t, list.Containers[0].PID), hostUID(t, list.Sandboxes[0].PID)
	if app1 < userns.Length || app1%userns.Length != 1000 || pause/userns.Length != app1/userns.Length {
		t.Errorf("on the machine they are users %d and %d", app1, pause)
	}
	info, err := os.Stat(filepath.Join(n.root, "agent/pods/uid-own/volumes/disk/file"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 1000 || st.Gid != 2000 {
		t.Errorf("on the disk the file is of %d:%d", st.Uid, st.Gid)
	}
	n.delete("own", 1)
	n.nothingLeft("uid-own")
}

// hostUID is the user of a process as the machine sees it.
func hostUID(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "Uid:")
	var uid int
	if _, err := fmt.Sscan(rest, &uid); err != nil {
		t.Fatal(err)
	}
	return uid
}
