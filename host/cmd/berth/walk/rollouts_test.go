package walk_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/polltest"
)

var rollOutsSeed = flag.Uint64("rollouts.seed", rand.Uint64(), "when roll-outs are killed follows from it")

const (
	// A quarter up is five more, a quarter down five fewer.
	rolledPods, mostPods, leastAvailable = 20, 25, 15
	// rolledRevisions is how many revisions of pods a roll-out has: each new pod
	// is made, placed and run, each old one is told to go and goes.
	rolledRevisions = 5 * rolledPods
)

// TestRollOutsOutliveKills kills the host once or more in each of 10 roll-outs,
// of 500 in a campaign. At no revision are there more pods than surge allows or
// fewer available ones than there must be, and each roll-out comes to its end.
func TestRollOutsOutliveKills(t *testing.T) {
	t.Parallel()
	rollOuts := 10
	if campaign() {
		rollOuts = 500
	}
	t.Logf("-rollouts.seed=%d", *rollOutsSeed)
	r := &rollOutKills{
		cluster: newCluster(t, "--listen", "127.0.0.1:0", "--agent", "none", "--simulate", "20"),
		random:  rand.New(rand.NewPCG(*rollOutsSeed, 0)), pods: new(podWatch),
	}
	r.deploy(t)
	r.follow(t)
	t.Cleanup(r.life.Wait)
	for n := range rollOuts {
		r.roll(t, fmt.Sprintf("example.test/web:%d", n+2))
	}
	t.Logf("%d roll-outs, %d kills, %d revisions of pods, %d lists", rollOuts, r.kills, r.pods.revisions, r.pods.lists)
}

// rollOutKills are roll-outs of one Deployment on a host that is killed.
type rollOutKills struct {
	*cluster
	random *rand.Rand
	pods   *podWatch
	life   sync.WaitGroup // of the watch, which ends with its host
	end    error          // why the watch did
	kills  int
}

// deploy makes the Deployment and waits for its first pods.
func (r *rollOutKills) deploy(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: smallPod("", nil).Spec}
	_, err := r.client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](rolledPods), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.must(t, r.kubectl, "rollout", "status", "deployment/web", "--timeout=1m")
}

// follow watches the pods until the host is killed.
func (r *rollOutKills) follow(t *testing.T) {
	pods := r.client.CoreV1().Pods("default")
	r.life.Go(func() { r.end = r.pods.follow(t.Context(), pods) })
}

// roll changes the image, kills the host meanwhile, and looks at what comes of it.
func (r *rollOutKills) roll(t *testing.T, image string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":%q}]}}}}`, image)
	moment := r.pods.moment(image, r.random.IntN(rolledRevisions))
	if _, err := r.client.AppsV1().Deployments("default").Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for again := true; again; again = r.random.IntN(3) == 0 {
		r.killAt(t, moment)
		moment = r.pods.moment(image, r.random.IntN(rolledRevisions))
	}
	r.must(t, r.kubectl, "rollout", "status", "deployment/web", "--timeout=1m")
	r.wantSets(t, image)
	eventually(t, "only the wanted pods are there, and the watch has seen them", func() bool { return r.settled(t, image) })
	if len(r.pods.wrong) > 0 {
		t.Fatalf("%s: %q", image, r.pods.wrong)
	}
}

// killAt kills the host when the moment has come, one time in four once more
// while it starts, and starts it again.
func (r *rollOutKills) killAt(t *testing.T, moment <-chan struct{}) {
	t.Helper()
	select {
	case <-moment:
	case <-time.After(time.Minute):
		t.Fatalf("the roll-out stands still:\n%s", r.told())
	}
	polltest.Pass(time.Duration(r.random.IntN(10_000)) * time.Microsecond)
	r.kill()
	r.kills++
	r.life.Wait()
	t.Logf("killed at revision %s: %v", r.pods.at, r.end)
	if r.random.IntN(4) == 0 {
		r.killStarting(t)
		r.kills++
	}
	r.start()
	r.follow(t)
}

// wantSets wants one ReplicaSet that has all pods, and none in the others.
func (r *rollOutKills) wantSets(t *testing.T, image string) {
	t.Helper()
	sets, err := r.client.AppsV1().ReplicaSets("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	newest := 0
	for _, s := range sets.Items {
		want := int32(0)
		if s.Spec.Template.Spec.Containers[0].Image == image {
			want = rolledPods
			newest++
		}
		if *s.Spec.Replicas != want || s.Status.Replicas != want || s.Status.AvailableReplicas != want {
			t.Errorf("ReplicaSet %s is to have %d replicas, has %d and %d available, want %d", s.Name, *s.Spec.Replicas, s.Status.Replicas, s.Status.AvailableReplicas, want)
		}
	}
	if newest != 1 {
		t.Errorf("%d ReplicaSets are for %s, want 1", newest, image)
	}
}

// settled says whether the wanted pods are all there are, and all that the watch
// has seen.
func (r *rollOutKills) settled(t *testing.T, image string) bool {
	t.Helper()
	list, err := r.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.pods.mu.Lock()
	defer r.pods.mu.Unlock()
	return len(list.Items) == rolledPods && r.pods.rolled(image) && maps.EqualFunc(r.pods.known, byUID(list), func(a, b v1.Pod) bool {
		return a.ResourceVersion == b.ResourceVersion
	})
}
