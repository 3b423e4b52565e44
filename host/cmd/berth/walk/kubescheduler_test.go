package walk_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// theirs is the profile of the real kube-scheduler; ours is Berth's own.
const (
	theirs = "kube-scheduler"
	ours   = v1.DefaultSchedulerName
)

// TestKubeScheduler lets the real kube-scheduler place the pods that ask for
// it, beside Berth's own scheduler, on nodes that both share.
func TestKubeScheduler(t *testing.T) {
	t.Parallel()
	program(t, "kube-scheduler")
	c := newCluster(t, "--listen", "127.0.0.1:0", "--agent", "none", "--simulate", "3", "--simulate-node", "cpu=4,memory=8Gi,pods=20")
	s := c.startKubeScheduler(t)
	t.Run("it leads by its Lease", func(t *testing.T) { c.testLeads(t) })
	t.Run("it places the pods that name it, and tells of it", func(t *testing.T) { c.testPlaces(t) })
	t.Run("both say in the same words why a pod waits", func(t *testing.T) { c.testSaysWhy(t) })
	t.Run("two schedulers fill the nodes and no more", func(t *testing.T) { c.testShares(t) })
	t.Run("two schedulers at once give no room away twice", func(t *testing.T) { c.testRaces(t) })
	t.Run("it makes room for a pod of higher priority", func(t *testing.T) { c.testPreempts(t) })
	t.Run("it asks the API who may read its metrics", func(t *testing.T) { s.testMetrics(t, c) })
}

// kubeScheduler is the running program.
type kubeScheduler struct {
	*outsider
	port int
}

// startKubeScheduler runs it with the rights and the credentials of a service
// account. It is told to be a 1.33, the last whose informers do not insist on
// resource.k8s.io, which Berth does not serve; its lists come by watches as
// those of later ones do.
func (c *cluster) startKubeScheduler(t *testing.T) *kubeScheduler {
	t.Helper()
	kubeconfig := c.credentials(t, "kube-scheduler", "system:kube-scheduler", "system:volume-scheduler",
		"kube-system/extension-apiserver-authentication-reader", "kube-system/system::leader-locking-kube-scheduler")
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s}
leaderElection: {leaderElect: true}
profiles: [{schedulerName: %s}]
`, kubeconfig, theirs)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	o := outside(t, "kube-scheduler", "--config", config, "--emulated-version=1.33", "--feature-gates=WatchListClient=true",
		"--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir", t.TempDir(), "-v=2")
	return &kubeScheduler{o, port}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (c *cluster) testLeads(t *testing.T) {
	eventually(t, "kube-scheduler holds its Lease", func() bool {
		lease, err := c.client.CoordinationV1().Leases("kube-system").Get(t.Context(), "kube-scheduler", metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" && lease.Spec.RenewTime != nil
	})
}

// podFor is a pod of one CPU for a scheduler.
func podFor(scheduler, name string) *v1.Pod {
	p := smallPod(name, nil)
	p.Spec.SchedulerName = scheduler
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	return p
}

func (c *cluster) testPlaces(t *testing.T) {
	p := podFor(theirs, "placed")
	p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "sim-1"}
	c.submit(t, p)
	p = c.awaitPod(t, "placed", "runs", isRunning)
	if p.Spec.NodeName != "sim-1" {
		t.Errorf("placed on %s, want sim-1, which its selector names", p.Spec.NodeName)
	}
	c.awaitEvent(t, "placed", "Scheduled", "Successfully assigned default/placed to sim-1", theirs)
	p = podFor(theirs, "impossible")
	p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "nowhere"}
	c.submit(t, p)
	const why = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector"
	c.awaitEvent(t, "impossible", "FailedScheduling", why, theirs)
	c.awaitPod(t, "impossible", "is told why it waits", func(p *v1.Pod) bool {
		said := condition(p, v1.PodScheduled)
		return said.Status == v1.ConditionFalse && said.Reason == v1.PodReasonUnschedulable && strings.HasPrefix(said.Message, why)
	})
	c.must(t, c.kubectl, "delete", "pod", "placed", "impossible")
}

// testSaysWhy holds Berth's words to kube-scheduler's for what is told by its name.
func (c *cluster) testSaysWhy(t *testing.T) {
	if _, err := c.client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "of-no-class"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: new(""),
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, claim := range []string{"nowhere", "of-no-class"} {
		said := map[string]string{}
		for _, scheduler := range []string{ours, theirs} {
			p := podFor(scheduler, "wants-"+claim+"-of-"+scheduler)
			p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
			c.submit(t, p)
			p = c.awaitPod(t, p.Name, "is told why it waits", func(p *v1.Pod) bool { return condition(p, v1.PodScheduled).Message != "" })
			said[scheduler] = condition(p, v1.PodScheduled).Message
			c.must(t, c.kubectl, "delete", "pod", p.Name)
		}
		if said[ours] != said[theirs] {
			t.Errorf("of the claim %s Berth says\n\t%s\nand kube-scheduler\n\t%s", claim, said[ours], said[theirs])
		}
	}
}

// awaitEvent waits for an Event about a pod, by its words and who says it.
func (c *cluster) awaitEvent(t *testing.T, pod, reason, says, by string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s says %s of pod %s: %s", by, reason, pod, says), func() bool {
		list, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == reason && strings.HasPrefix(e.Message, says) && (e.ReportingController == by || e.Source.Component == by) {
				return true
			}
		}
		return false
	})
}

// testShares fills 3 nodes of 4 CPUs in turns. Who comes when all is taken
// waits, whichever scheduler it asked, and gets what becomes free.
func (c *cluster) testShares(t *testing.T) {
	for i := range 12 {
		by := []string{ours, theirs}[i/2%2]
		name := fmt.Sprintf("share-%d", i)
		c.submit(t, podFor(by, name))
		c.awaitPod(t, name, "runs", isRunning)
		c.awaitEvent(t, name, "Scheduled", "Successfully assigned default/"+name, by)
	}
	c.wantNotOvercommitted(t)
	c.submit(t, podFor(ours, "late-ours"))
	c.submit(t, podFor(theirs, "late-theirs"))
	for _, name := range []string{"late-ours", "late-theirs"} {
		c.awaitPod(t, name, "waits for CPU", func(p *v1.Pod) bool {
			said := condition(p, v1.PodScheduled)
			return said.Status == v1.ConditionFalse && strings.Contains(said.Message, "3 Insufficient cpu")
		})
	}
	c.must(t, c.kubectl, "delete", "pod", "share-0", "share-1")
	for _, name := range []string{"late-ours", "late-theirs"} {
		c.awaitPod(t, name, "runs in what became free", isRunning)
	}
	c.wantNotOvercommitted(t)
	c.must(t, c.kubectl, "delete", "pods", "--all")
}

// testRaces gives both schedulers more than fits at once: they decide without
// knowing of each other, and the API refuses binds for which no room is left.
func (c *cluster) testRaces(t *testing.T) {
	for i := range 12 {
		c.submit(t, podFor(theirs, fmt.Sprintf("race-theirs-%d", i)))
		c.submit(t, podFor(ours, fmt.Sprintf("race-ours-%d", i)))
	}
	eventually(t, "12 of 24 pods run, and the others are told that nothing is left", func() bool {
		pods, err := c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		run, wait := 0, 0
		for i := range pods.Items {
			p := &pods.Items[i]
			if isRunning(p) {
				run++
			} else if strings.Contains(condition(p, v1.PodScheduled).Message, "3 Insufficient cpu") {
				wait++
			}
		}
		return run == 12 && wait == 12
	})
	c.wantNotOvercommitted(t)
	c.must(t, c.kubectl, "delete", "pods", "--all")
}

// wantNotOvercommitted sums up the CPUs that are asked for on each node.
func (c *cluster) wantNotOvercommitted(t *testing.T) {
	t.Helper()
	pods, err := c.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]int64{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName != "" {
			asked[p.Spec.NodeName] += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	for node, milli := range asked {
		if milli > 4000 {
			t.Errorf("node %s has 4 CPUs, its pods ask for %dm", node, milli)
		}
	}
}

func (c *cluster) testPreempts(t *testing.T) {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}
	if _, err := c.client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		c.submit(t, podFor(ours, fmt.Sprintf("low-%d", i)))
	}
	for i := range 12 {
		c.awaitPod(t, fmt.Sprintf("low-%d", i), "runs", isRunning)
	}
	p := podFor(theirs, "urgent")
	p.Spec.PriorityClassName = "urgent"
	p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("2")
	c.submit(t, p)
	c.awaitPod(t, "urgent", "runs in place of others", isRunning)
	c.wantNotOvercommitted(t)
	pods, err := c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 11 {
		t.Errorf("%d pods are left, want the urgent one and 10 of 12: two had to go", len(pods.Items))
	}
	c.must(t, c.kubectl, "delete", "pods", "--all")
}

// testMetrics reads what the program tells to those whom the API knows and
// allows: it reviews their tokens by Berth.
func (s *kubeScheduler) testMetrics(t *testing.T, c *cluster) {
	c.must(t, c.kubectl, "create", "clusterrole", "scrape", "--verb=get", "--non-resource-url=/metrics")
	allowed, err := clientcmd.BuildConfigFromFlags("", c.credentials(t, "scraper", "scrape"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := clientcmd.BuildConfigFromFlags("", c.credentials(t, "other"))
	if err != nil {
		t.Fatal(err)
	}
	// Its certificate is its own; the token is what counts here.
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func(token string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("https://127.0.0.1:%d/metrics", s.port), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, _ := ask("forged"); code != http.StatusUnauthorized {
		t.Errorf("a forged token gets %d, want 401", code)
	}
	if code, _ := ask(other.BearerToken); code != http.StatusForbidden {
		t.Errorf("a token without the role gets %d, want 403", code)
	}
	code, text := ask(allowed.BearerToken)
	if code != http.StatusOK || !strings.Contains(text, `scheduler_schedule_attempts_total{profile="kube-scheduler",result="scheduled"}`) {
		t.Errorf("a token with the role gets %d, want its metrics:\n%.1000s", code, text)
	}
}
