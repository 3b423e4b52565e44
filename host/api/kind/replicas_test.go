package kind

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/berth-dev/berth/host/store"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
)

// prepared is what preparation and validation make of a pod.
func prepared(t *testing.T, pod *corev1.Pod) (store.Object, error) {
	t.Helper()
	k := MustStored("pods")
	hub, err := k.Internal(pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := rest.BeforeCreate(k.Strategy, apirequest.WithNamespace(t.Context(), pod.Namespace), hub); err != nil {
		return nil, err
	}
	made, err := k.External(hub)
	if err != nil {
		t.Fatal(err)
	}
	return made, nil
}

func replica(name string, change func(*corev1.Pod)) *corev1.Pod {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u-" + "1", CreationTimestamp: metav1.Now(), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "web:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
		}}},
	}
	if change != nil {
		change(pod)
	}
	Scheme.Default(pod)
	return pod
}

// recalled prepares two replicas, and recalls what they became for a third.
func recalled(t *testing.T, r *Replicas, first, third *corev1.Pod) store.Object {
	t.Helper()
	for range 2 {
		pod := first.DeepCopy()
		like := r.Like(pod)
		made, err := prepared(t, pod)
		if err != nil {
			t.Fatal(err)
		}
		r.Keep(like, made)
		like.Done()
	}
	like := r.Like(third)
	defer like.Done()
	return r.Recall(like, third)
}

func TestAReplicaIsWhatPreparationWouldMakeOfIt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Pod){
		"a plain pod":             nil,
		"one with a stale status": func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"one without limits":      func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} },
		"one with negative grace": func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](-5) },
		"one with an old annotation": func(p *corev1.Pod) {
			p.Annotations = map[string]string{"pod.beta.kubernetes.io/init-containers": "[]", "kept": "yes"}
		},
		"one with keys to merge": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MatchLabelKeys: []string{"app"},
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}},
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			third := replica("third", change)
			third.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u"}}
			third.Finalizers = []string{"example.com/keep"}
			got := recalled(t, newReplicas(), replica("first", change), third.DeepCopy())
			want, err := prepared(t, third)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("a replica differs from what preparation makes of it (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatMustBePreparedAnewIsNotRecalled(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Pod){
		"another label":            func(p *corev1.Pod) { p.Labels["app"] = "db" },
		"another annotation":       func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} },
		"another image":            func(p *corev1.Pod) { p.Spec.Containers[0].Image = "web:2" },
		"a name that is refused":   func(p *corev1.Pod) { p.Name = "No_Name" },
		"a name that is warned of": func(p *corev1.Pod) { p.Name = "a.b" },
		"a reference without a name": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", UID: "u"}}
		},
		"a gate, whose condition bears the time": func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := recalled(t, newReplicas(), replica("first", nil), replica("third", change)); got != nil {
				t.Errorf("recalled %+v, want nothing", got)
			}
		})
	}
}

func TestPodsWhoseClaimsBearTheirNameAreNotRecalled(t *testing.T) {
	t.Parallel()
	named := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	}
	if like := newReplicas().Like(replica("first", named)); like != nil {
		t.Error("a pod with an ephemeral claim is remembered")
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	t.Parallel()
	r := newReplicas()
	for i := range 4 * maxLikes / 512 {
		labels := func(p *corev1.Pod) { p.Labels["app"] = fmt.Sprint("web-", i) }
		if recalled(t, r, replica("first", labels), replica("third", labels)) == nil {
			t.Fatalf("replica %d is not recalled right after it was kept", i)
		}
	}
	held := 0
	for like := range r.made.young {
		held += len(like)
	}
	for like := range r.made.old {
		held += len(like)
	}
	if held > 2*maxLikes {
		t.Errorf("%d bytes are remembered, want at most %d", held, 2*maxLikes)
	}
}

// unmarshal reads a pod's message by way of r.
func unmarshal(r *Replicas, raw []byte) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, r.Unmarshal(raw, pod, pod.Unmarshal)
}

func TestAReplicaIsReadAsIfItWereTheFirst(t *testing.T) {
	t.Parallel()
	r := newReplicas()
	for i, name := range []string{"a", "b", "c", "d"} {
		sent := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"of": name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			Status:     corev1.PodStatus{Message: name},
		}
		raw, err := sent.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, err := unmarshal(r, raw)
		if err != nil {
			t.Fatal(err)
		}
		var want corev1.Pod
		if err := want.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		if i >= 2 && got.Spec.RestartPolicy == "" {
			t.Errorf("pod %s was read anew", name)
		}
		Scheme.Default(got)
		Scheme.Default(&want)
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("pod %s differs from what was sent (-want +got):\n%s", name, diff)
		}
		got.Spec.Containers[0].Image = "changed by whoever read it"
	}
}

func FuzzReadReplicas(f *testing.F) {
	raw, err := (&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c"}}},
	}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(append(raw[:len(raw):len(raw)], 2<<3|2, 0))
	f.Add([]byte{1<<3 | 2, 0, 2<<3 | 2, 0, 3<<3 | 2, 0})
	f.Add([]byte{1<<3 | 2, 0, 2<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want corev1.Pod
		refused := want.Unmarshal(raw)
		Scheme.Default(&want)
		r := newReplicas()
		for i := range 4 {
			got, err := unmarshal(r, raw)
			if (err == nil) != (refused == nil) {
				t.Fatalf("reading it for the %d. time: %v, else: %v", i+1, err, refused)
			}
			if err != nil {
				continue
			}
			Scheme.Default(got)
			a, errA := want.Marshal()
			b, errB := got.Marshal()
			if (errA == nil) != (errB == nil) || !bytes.Equal(a, b) {
				t.Fatalf("read for the %d. time it differs:\n%q\n%q", i+1, a, b)
			}
		}
	})
}

func BenchmarkReplica(b *testing.B) {
	r := newReplicas()
	pod := replica("web-1", nil)
	ctx := apirequest.WithNamespace(context.Background(), "default")
	k := MustStored("pods")
	for range 2 {
		like := r.Like(pod)
		hub, err := k.Internal(pod.DeepCopy())
		if err != nil {
			b.Fatal(err)
		}
		if err := rest.BeforeCreate(k.Strategy, ctx, hub); err != nil {
			b.Fatal(err)
		}
		made, err := k.External(hub)
		if err != nil {
			b.Fatal(err)
		}
		r.Keep(like, made)
		like.Done()
	}
	b.ReportAllocs()
	for b.Loop() {
		like := r.Like(pod)
		if r.Recall(like, pod) == nil {
			b.Fatal("not recalled")
		}
		like.Done()
	}
}
