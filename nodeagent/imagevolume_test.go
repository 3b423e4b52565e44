package nodeagent_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/image"
)

const dataImage = "registry.test/data:1"

// dataPod is a pod that mounts an image.
func dataPod(name string, policy v1.PullPolicy) *v1.Pod {
	p := newPod(name, "sleep 600")
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: dataImage, PullPolicy: policy}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data", SubPath: "model"}}
	return p
}

func waitsFor(reason string) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool {
		cs := p.Status.ContainerStatuses
		return len(cs) == 1 && cs[0].State.Waiting != nil && cs[0].State.Waiting.Reason == reason
	}
}

// told waits for an event that begins with a text.
func (m *machine) told(reason, text string) {
	m.t.Helper()
	var seen []string
	if !polltest.Within(time.Minute, func() bool {
		list, err := m.api.CoreV1().Events("default").List(m.t.Context(), metav1.ListOptions{})
		if err != nil {
			m.t.Fatal(err)
		}
		seen = nil
		for _, e := range list.Items {
			if e.Reason == reason && strings.HasPrefix(e.Message, text) {
				return true
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		return false
	}) {
		m.t.Errorf("no event %s: %s in %q", reason, text, seen)
	}
}

func TestImageVolumeIsPulledAndMounted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.images.SetRemote(func(ref string, creds []image.Credential) (image.Config, error) {
		if ref == dataImage && (len(creds) != 1 || creds[0].Username != "ann") {
			return image.Config{}, fmt.Errorf("credentials %v: %w", creds, image.ErrUnauthorized)
		}
		return image.Config{}, nil
	})
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pull"}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{"registry.test":{"username":"ann","password":"x"}}}`)}}
	if _, err := m.api.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := dataPod("data", "")
	p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}}
	m.create(p)
	got := m.await("data", "ready", ready)
	data, err := m.images.Get(t.Context(), dataImage)
	if err != nil {
		t.Fatal(err)
	}
	cfg, _ := m.runtime.Config(strings.TrimPrefix(got.Status.ContainerStatuses[0].ContainerID, "fake://"))
	i := slices.IndexFunc(cfg.Mounts, func(r mount) bool { return r.ContainerPath == "/data" })
	if i < 0 || cfg.Mounts[i] != (mount{Image: data.ID, SubPath: "model", ContainerPath: "/data", ReadOnly: true}) {
		t.Errorf("mounts %+v, want image %s", cfg.Mounts, data.ID)
	}
	m.told("Pulling", `Pulling image "registry.test/data:1"`)
	m.told("Pulled", `Successfully pulled image "registry.test/data:1"`)
	m.terminate("data", 1)
	m.awaitGone("data")
	m.nothingLeft("uid-data")
}

func TestImageVolumeThatCanNotBeHadIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, reason, message, event string
		policy                       v1.PullPolicy
		change                       func(*v1.Pod)
	}{
		{name: "missing", reason: "ErrImagePull", message: "no such image", event: "Error: ErrImagePull"},
		{name: "again", reason: "ImagePullBackOff", message: `Back-off pulling image "registry.test/data:1": ErrImagePull: `, event: "Error: ErrImagePull"},
		{name: "never", policy: v1.PullNever, reason: "ErrImageNeverPull", event: "Error: ErrImageNeverPull",
			message: `Container image "registry.test/data:1" is not present with pull policy of Never`},
		{name: "nonsense", reason: "InvalidImageName", message: `Failed to apply default image tag "a b"`, event: "Error: InvalidImageName",
			change: func(p *v1.Pod) { p.Spec.Volumes[0].Image.Reference = "a b" }},
		{name: "empty", reason: "InvalidImageName", message: `Failed to apply default image tag ""`, event: "Error: InvalidImageName",
			change: func(p *v1.Pod) { p.Spec.Volumes[0].Image.Reference = "" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.images.SetRemote(func(ref string, _ []image.Credential) (image.Config, error) {
				if ref == dataImage {
					return image.Config{}, errors.New("no such image")
				}
				return image.Config{}, nil
			})
			p := dataPod(tt.name, tt.policy)
			if tt.change != nil {
				tt.change(p)
			}
			m.create(p)
			got := m.await(tt.name, "waiting", waitsFor(tt.reason))
			if w := got.Status.ContainerStatuses[0].State.Waiting; !strings.Contains(w.Message, tt.message) {
				t.Errorf("message %q, want %q", w.Message, tt.message)
			}
			m.told("Failed", tt.event)
			if pulls := m.images.Pulls(); slices.Contains(pulls, "busybox:1") {
				t.Errorf("pulled %q: the container's image comes after its volumes", pulls)
			}
		})
	}
}
