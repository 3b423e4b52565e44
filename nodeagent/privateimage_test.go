package nodeagent_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent"
	"github.com/berth-dev/berth/nodeagent/image"
)

const privateImage = "registry.test/private:1"

func (m *machine) pullSecret(name, user string) {
	m.t.Helper()
	auths := fmt.Sprintf(`{"auths":{"registry.test":{"username":%q,"password":"x"}}}`, user)
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(auths)}}
	if _, err := m.api.CoreV1().Secrets("default").Create(m.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

// TestAPrivateImageIsNotForOthers: that it is on the machine already helps only
// who could have pulled it.
func TestAPrivateImageIsNotForOthers(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.images.SetRemote(func(ref string, creds []image.Credential) (image.Config, error) {
		if ref == privateImage && (len(creds) != 1 || creds[0].Username != "ann") {
			return image.Config{}, fmt.Errorf("credentials %v: %w", creds, image.ErrUnauthorized)
		}
		return image.Config{}, nil
	})
	m.pullSecret("ann", "ann")
	m.pullSecret("too", "ann")
	m.pullSecret("bob", "bob")
	run := func(name string, policy v1.PullPolicy, secrets ...string) {
		p := newPod(name, "sleep 600")
		p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = privateImage, policy
		for _, s := range secrets {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
		}
		m.create(p)
	}
	run("first", v1.PullIfNotPresent, "bob", "ann")
	m.await("first", "running", running)
	pulls := len(m.images.Pulls())
	run("same", v1.PullNever, "too")
	m.await("same", "running", running)
	if got := len(m.images.Pulls()); got != pulls {
		t.Errorf("%d pulls for one who has the same credentials", got-pulls)
	}
	run("other", v1.PullIfNotPresent, "bob")
	m.await("other", "refused the image", waitsFor("ErrImagePull"))
	run("nobody", v1.PullIfNotPresent)
	m.await("nobody", "refused the image", waitsFor("ErrImagePull"))
	run("never", v1.PullNever)
	m.await("never", "refused the image", waitsFor("ErrImageNeverPull"))
	m.stop()
	m.start()
	run("later", v1.PullNever)
	m.await("later", "refused the image after a restart", waitsFor("ErrImageNeverPull"))
}

func running(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning }

// nodeKeyring has one credential of the machine's own.
type nodeKeyring struct{}

func (nodeKeyring) Credentials(context.Context, string) ([]image.Credential, error) {
	return []image.Credential{{Username: "node", Node: true}}, nil
}

// What the machine's own credentials pull is for every pod; a pod's own are tried
// first.
func TestTheMachinesCredentialsAreForAllPods(t *testing.T) {
	t.Parallel()
	m := &machine{t: t, fakes: newFakes(t.TempDir(), nil), change: func(cfg *nodeagent.Config) { cfg.Keyring = nodeKeyring{} }}
	var mu sync.Mutex
	var tried []string
	m.images.SetRemote(func(ref string, creds []image.Credential) (image.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		if ref == privateImage {
			if len(creds) != 1 {
				return image.Config{}, fmt.Errorf("credentials %v: %w", creds, image.ErrUnauthorized)
			}
			if tried = append(tried, creds[0].Username); creds[0].Username != "node" {
				return image.Config{}, image.ErrUnauthorized
			}
		}
		return image.Config{}, nil
	})
	m.start()
	t.Cleanup(func() { m.stop() })
	m.pullSecret("bob", "bob")
	run := func(name string, policy v1.PullPolicy, secrets ...v1.LocalObjectReference) {
		p := newPod(name, "sleep 600")
		p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy, p.Spec.ImagePullSecrets = privateImage, policy, secrets
		m.create(p)
		m.await(name, "running", running)
	}
	run("first", v1.PullIfNotPresent, v1.LocalObjectReference{Name: "bob"})
	run("second", v1.PullNever)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"bob", "node"}; !slices.Equal(tried, want) {
		t.Errorf("tried %q, want %q", tried, want)
	}
}
