package machine_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAPrivilegedPodRunsForReal mounts, which no other may, and cannot write what
// comes from the API all the same.
func TestAPrivilegedPodRunsForReal(t *testing.T) {
	n := newNode(t)
	config := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "words"}, Data: map[string]string{"word": "hello"}}
	if _, err := n.api.CoreV1().ConfigMaps("default").Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	yes, uid := true, int64(0)
	p := web("strong")
	p.Spec.Volumes = []v1.Volume{{Name: "words", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "words"}}}}}
	app := &p.Spec.Containers[0]
	app.VolumeMounts = []v1.VolumeMount{{Name: "words", MountPath: "/words"}}
	app.SecurityContext = &v1.SecurityContext{Privileged: &yes, RunAsUser: &uid}
	app.Command[2] = "mkdir /www && mount -t tmpfs none /www && ! echo x > /words/new && cat /words/word > /www/index.html; exec httpd -f -p 80 -h /www"
	n.create(p)
	ready := n.awaitReady("strong")
	if got := ask(t, ready); got != "hello" {
		t.Errorf("the pod answers %q, want what it read of its config map", got)
	}
	if u := ready.Status.ContainerStatuses[0].User; u == nil || u.Linux == nil || u.Linux.UID != 0 {
		t.Errorf("user = %+v", u)
	}
	n.delete("strong", 0)
	n.nothingLeft("uid-strong")
}
