package kind_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"
)

// replica is a pod of many; its token's volume has a name of its own if it has
// a token.
func replica(i int, token bool) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i), Namespace: "default", Labels: map[string]string{"app": "web", "tier": "front"}},
		Spec: v1.PodSpec{
			NodeName: fmt.Sprint("node-", i),
			Containers: []v1.Container{{
				Name: "web", Image: "web:1", Env: []v1.EnvVar{{Name: "A", Value: "b"}},
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}},
			}, {Name: "proxy", Image: "proxy:1"}},
			Tolerations: []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}},
		},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: fmt.Sprint("10.0.0.", i)},
	}
	if token {
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: fmt.Sprint("kube-api-access-", i), MountPath: "/var/run"}}
	}
	return p
}

func encoded(t testing.TB, p *v1.Pod) []byte {
	t.Helper()
	data, err := kind.Codec{}.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decoded(t testing.TB, data []byte) *v1.Pod {
	t.Helper()
	o, err := kind.Codec{}.Decode("pods", data)
	if err != nil {
		t.Fatal(err)
	}
	return o.(*v1.Pod)
}

// sameMap says whether two maps are one.
func sameMap[K comparable, V any](a, b map[K]V) bool {
	return fmt.Sprintf("%p", a) == fmt.Sprintf("%p", b)
}

func TestReplicasShareWhatIsAlike(t *testing.T) {
	t.Parallel()
	one, two := decoded(t, encoded(t, replica(1, false))), decoded(t, encoded(t, replica(2, false)))
	if &one.Spec.Containers[0] != &two.Spec.Containers[0] || &one.Spec.Tolerations[0] != &two.Spec.Tolerations[0] || !sameMap(one.Labels, two.Labels) {
		t.Error("two replicas hold labels, containers or tolerations of their own")
	}
	if diff := cmp.Diff(replica(2, false), two); diff != "" {
		t.Errorf("the second replica (-want +got):\n%s", diff)
	}
	made := replica(3, false)
	kind.Codec{}.Intern(made, encoded(t, made))
	if &made.Spec.Containers[0] != &one.Spec.Containers[0] || !sameMap(made.Labels, one.Labels) {
		t.Error("a replica that is written holds parts of its own")
	}
	if diff := cmp.Diff(replica(3, false), made); diff != "" {
		t.Errorf("a replica that was written (-want +got):\n%s", diff)
	}
	other := replica(4, false)
	other.Labels["app"], other.Spec.Containers[1].Image = "api", "proxy:2"
	if diff := cmp.Diff(other, decoded(t, encoded(t, other))); diff != "" {
		t.Errorf("another pod (-want +got):\n%s", diff)
	}
}

func TestReplicasWithTokensShareWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	one, two := decoded(t, encoded(t, replica(1, true))), decoded(t, encoded(t, replica(2, true)))
	if !sameMap(one.Spec.Containers[0].Resources.Requests, two.Spec.Containers[0].Resources.Requests) {
		t.Error("two replicas with tokens hold requests of their own")
	}
	if diff := cmp.Diff(replica(2, true), two); diff != "" {
		t.Errorf("the second replica (-want +got):\n%s", diff)
	}
	shown := replica(3, true)
	before := &shown.Spec.Containers[0]
	requests := before.Resources.Requests
	kind.Codec{}.Intern(shown, encoded(t, shown))
	if !sameMap(before.Resources.Requests, requests) {
		t.Error("a list was written to that others may read")
	}
}

// A map's entry that says to be shorter than its key and value are: Unmarshal
// reads on. Stored objects have none; a copy of a part must not come from one.
func TestAnEntryThatRunsOnIsNoKnownPart(t *testing.T) {
	t.Parallel()
	message := func(number uint64, parts ...string) string {
		body := strings.Join(parts, "")
		return string(binary.AppendUvarint(nil, number<<3|2)) + string([]byte{byte(len(body))}) + body
	}
	const (
		runsOn = "\x0a\x08"             // a key of 8 bytes, of which the entry has none
		number = "\x08\x08"             // the same, said to be a number
		after  = "\x1a\x06\x0a\x04tail" // what follows: some other field
	)
	known, containers := message(metaLabels, message(1, "app"), message(2, "web")), message(2, message(1, "c"))
	for what, of := range map[string]func(entry, rest string) string{
		"labels": func(entry, rest string) string {
			return message(1, message(metaLabels, entry), rest) + message(2, containers)
		},
		"annotations": func(entry, rest string) string {
			return message(1, message(metaAnnotations, entry), known, rest) + message(2, containers)
		},
		"selector": func(entry, rest string) string {
			return message(1, known) + message(2, message(7, entry), containers, rest)
		},
		"overhead": func(entry, rest string) string {
			return message(1, known) + message(2, message(32, entry), containers, rest)
		},
		"capacity":    func(entry, rest string) string { return message(3, message(1, entry), rest) },
		"allocatable": func(entry, rest string) string { return message(3, message(2, entry), rest) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, entry := range []string{runsOn, number} {
				for _, tail := range []string{"one!", "two!"} {
					data := []byte(of(entry, strings.Replace(after, "tail", tail, 1)))
					holdDecoder(t, "pods", new(v1.Pod), data)
					holdDecoder(t, "nodes", new(v1.Node), data)
				}
			}
		})
	}
}

const metaLabels, metaAnnotations = 11, 12

// FuzzDecodePod holds the decoders that leave known parts out, or share them,
// against the plain ones.
func FuzzDecodePod(f *testing.F) {
	f.Add(encoded(f, replica(1, false)))
	f.Add(encoded(f, replica(1, true)))
	f.Add(append(encoded(f, replica(1, false)), encoded(f, replica(2, true))...))
	f.Add([]byte{0x0a, 0x00, 0x12, 0x02, 0x12, 0x00, 0x1a, 0x00})
	f.Add(encodedNode(f, machine(1, "7")))
	f.Add(append(encodedNode(f, machine(1, "7")), encodedNode(f, machine(2, "6"))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		holdDecoder(t, "pods", new(v1.Pod), data)
		holdDecoder(t, "nodes", new(v1.Node), data)
	})
}

func holdDecoder(t *testing.T, resource string, plainly interface {
	store.Object
	Unmarshal([]byte) error
}, data []byte) {
	wantErr := plainly.Unmarshal(data)
	for range 2 { // the second time its parts are known
		got, err := kind.Codec{}.Decode(resource, data)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("decode %s: %v, plainly: %v", resource, err, wantErr)
		}
		if err == nil && !equality.Semantic.DeepEqual(plainly, got) {
			t.Fatalf("%s decoded otherwise than plainly (-want +got):\n%s", resource, cmp.Diff(plainly, got))
		}
	}
}
