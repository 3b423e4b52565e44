package walk_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
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

// podWatch judges the pods at each revision that it sees.
type podWatch struct {
	mu               sync.Mutex
	at               string // the last revision that was seen
	known            map[types.UID]v1.Pod
	revisions, lists int
	wrong            []string

	image   string // of the roll-out
	until   int    // revisions to see before reached is closed
	reached chan struct{}
}

// moment comes after some revisions, or when all pods are rolled if that is first.
func (w *podWatch) moment(image string, revisions int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	reached := make(chan struct{})
	w.image, w.until, w.reached = image, w.revisions+revisions, reached
	w.come()
	return reached
}

// come closes reached if the moment has come.
func (w *podWatch) come() {
	if w.reached != nil && (w.revisions >= w.until || w.rolled(w.image)) {
		close(w.reached)
		w.reached = nil
	}
}

// follow goes on where the watch of the last host ended, or from a list if that
// is too long ago. It ends when the host does.
func (w *podWatch) follow(ctx context.Context, pods corev1.PodInterface) (err error) {
	if w.at == "" {
		err = w.list(ctx, pods)
	}
	for err == nil {
		var events watch.Interface
		if events, err = pods.Watch(ctx, metav1.ListOptions{ResourceVersion: w.at, AllowWatchBookmarks: true}); err == nil {
			err = w.take(events)
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			err = w.list(ctx, pods)
		}
	}
	return err
}

// list begins anew.
func (w *podWatch) list(ctx context.Context, pods corev1.PodInterface) error {
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = byUID(list)
	w.lists++
	w.judge(list.ResourceVersion)
	return nil
}

func byUID(list *v1.PodList) map[types.UID]v1.Pod {
	pods := map[types.UID]v1.Pod{}
	for _, p := range list.Items {
		pods[p.UID] = p
	}
	return pods
}

// take sees events until there are no more.
func (w *podWatch) take(events watch.Interface) error {
	defer events.Stop()
	for e := range events.ResultChan() {
		p, ok := e.Object.(*v1.Pod)
		if !ok {
			return apierrors.FromObject(e.Object)
		}
		w.see(e.Type, p)
	}
	return nil
}

func (w *podWatch) see(what watch.EventType, p *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch what {
	case watch.Bookmark:
		w.at = p.ResourceVersion
		return
	case watch.Deleted:
		delete(w.known, p.UID)
	default:
		w.known[p.UID] = *p
	}
	w.judge(p.ResourceVersion)
}

// judge counts the pods that are not about to go.
func (w *podWatch) judge(revision string) {
	w.at = revision
	w.revisions++
	all, available := map[string]int{}, 0
	for _, p := range w.known {
		if p.DeletionTimestamp == nil {
			all[p.Spec.Containers[0].Image]++
			if isReady(&p) {
				available++
			}
		}
	}
	n := 0
	for _, of := range all {
		n += of
	}
	if n > mostPods || available < leastAvailable {
		w.wrong = append(w.wrong, fmt.Sprintf("at revision %s, %d pods %v, %d available", revision, n, all, available))
	}
	w.come()
}

// rolled says whether all pods are of the image, and available.
func (w *podWatch) rolled(image string) bool {
	for _, p := range w.known {
		if p.Spec.Containers[0].Image != image || !isReady(&p) || p.DeletionTimestamp != nil {
			return false
		}
	}
	return len(w.known) == rolledPods
}
