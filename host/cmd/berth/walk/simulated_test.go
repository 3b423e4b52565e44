package walk_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// TestSimulatedNodes walks through policies and their swap on one cluster of
// 100 nodes without containers.
func TestSimulatedNodes(t *testing.T) {
	t.Parallel()
	tool, err := build.Find()
	if err != nil || tool.Name != "tinygo" {
		missing(t, "tinygo is neither on PATH nor among Berth's tools: run ./task tinygo")
	}
	fills := compileFills(t, tool)
	c := newCluster(t, "--listen", "127.0.0.1:0", "--agent", "none", "--simulate", "100")
	t.Run("a pushed predicate changes where the next pod goes", c.testPush)
	t.Run("a swap loses no pod, and each decision is of one set", func(t *testing.T) { c.testSwap(t, fills) })
	t.Run("a module that cannot be is refused, and what was live stays", c.testRefusals)
	t.Run("kubectl alone can do it all", c.testKubectlAlone)
	t.Run("plain HTTP can do it all", func(t *testing.T) { c.testPlainHTTP(t, fills[0]) })
	t.Run("bad input is told apart, and not stored", c.testBadInput)
}

// compileFills builds both versions of examples/hot-swap.
func compileFills(t *testing.T, tool build.Toolchain) (files [2]string) {
	t.Helper()
	for i, dir := range []string{"v1", "v2"} {
		wasm, err := tool.Module(t.Context(), filepath.Join(root, "examples", "hot-swap", dir), false)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = filepath.Join(t.TempDir(), dir+".wasm")
		if err := os.WriteFile(files[i], wasm, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func smallPod(name string, selector map[string]string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{NodeSelector: selector, Containers: []v1.Container{{
			Name: "c", Image: "example.test/app:1",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m")}},
		}}},
	}
}

func (c *cluster) submit(t *testing.T, p *v1.Pod) {
	t.Helper()
	if _, err := c.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func isRunning(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning }

// report is what `berth explain pod` says, of all nodes.
func (c *cluster) report(t *testing.T, pod string) *explain.Report {
	t.Helper()
	r := new(explain.Report)
	out := c.must(t, binary, "explain", "pod", pod, "-o", "json", "--limit", "0")
	if err := json.Unmarshal([]byte(out), r); err != nil {
		t.Fatalf("explain pod %s: %v:\n%s", pod, err, out)
	}
	return r
}

func (c *cluster) policy(t *testing.T, name string) v1alpha1.Policy {
	t.Helper()
	var list v1alpha1.PolicyList
	if err := json.Unmarshal([]byte(c.must(t, binary, "policy", "list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("berth policy list lacks %s", name)
	return v1alpha1.Policy{}
}

func (c *cluster) testPush(t *testing.T) {
	const why = "node is kept for GPU pods"
	pool := map[string]string{"pool": "a"}
	c.must(t, c.kubectl, "label", "node", "sim-7", "pool=a", "accelerator=a100")
	c.submit(t, smallPod("before", pool))
	if p := c.awaitPod(t, "before", "runs", isRunning); p.Spec.NodeName != "sim-7" {
		t.Fatalf("before the push the pod is on %q, want sim-7", p.Spec.NodeName)
	}
	if said := c.mustFail(t, binary, "policy", "push", "gpu-only", "examples/gpu-only"); !strings.Contains(said, "1 pod would find no node any more (--force") {
		t.Errorf("berth policy push of what the pod cannot live with: %s", said)
	}
	if out := c.must(t, binary, "policy", "push", "gpu-only", "examples/gpu-only", "--force"); !strings.Contains(out, "with tinygo") || !strings.Contains(out, "is live") {
		t.Errorf("berth policy push: %s", out)
	}
	c.submit(t, smallPod("after", pool))
	waits := c.awaitPod(t, "after", "is told why it waits", func(p *v1.Pod) bool {
		return condition(p, v1.PodScheduled).Status == v1.ConditionFalse
	})
	if m := condition(waits, v1.PodScheduled).Message; !strings.Contains(m, "1 "+why) {
		t.Errorf("PodScheduled says %q, want it to count 1 %q", m, why)
	}
	c.must(t, c.kubectl, "label", "node", "sim-8", "pool=a")
	if p := c.awaitPod(t, "after", "runs", isRunning); p.Spec.NodeName != "sim-8" {
		t.Errorf("after the push the pod is on %q, want sim-8", p.Spec.NodeName)
	}
	tiny := c.policy(t, "gpu-only").Status.Live
	byTinyGo := c.refusals(t, "by-tinygo")
	if got := byTinyGo["sim-7"]; len(got) != 1 || got[0].Reason != why {
		t.Errorf("sim-7 refuses for %+v, want %q", got, why)
	}
	if out := c.must(t, binary, "policy", "push", "gpu-only", "--go", "examples/gpu-only", "--force"); !strings.Contains(out, "with go") {
		t.Errorf("berth policy push --go: %s", out)
	}
	if stock := c.policy(t, "gpu-only").Status.Live; stock == tiny {
		t.Errorf("stock Go made the same module as TinyGo: %s", stock)
	}
	if diff := cmp.Diff(byTinyGo, c.refusals(t, "by-go")); diff != "" {
		t.Errorf("TinyGo's verdicts (-) are not stock Go's (+):\n%s", diff)
	}
}

// refusals places a new pod and returns which nodes refuse it, and why.
func (c *cluster) refusals(t *testing.T, pod string) map[string][]explain.Refusal {
	t.Helper()
	c.submit(t, smallPod(pod, nil))
	c.awaitPod(t, pod, "runs", isRunning)
	r := c.report(t, pod)
	if r.Derived != "decision" || len(r.Rows) != 100 {
		t.Fatalf("explain pod %s: %d rows by %s, want 100 by its decision", pod, len(r.Rows), r.Derived)
	}
	refusals := map[string][]explain.Refusal{}
	for _, row := range r.Rows {
		refusals[row.Node] = row.Refusals
	}
	return refusals
}

const (
	// swapPods are submitted in all; swapFirst before the swap begins, and
	// swapLast after it ended.
	swapPods, swapFirst, swapLast = 500, 100, 50
)

func (c *cluster) testSwap(t *testing.T, fills [2]string) {
	c.must(t, binary, "policy", "push", "fill", fills[0])
	first := c.policy(t, "fill").Status.Live
	c.submitWhile(t, func() { c.must(t, binary, "policy", "push", "fill", fills[1]) })
	second := c.policy(t, "fill")
	if second.Status.Live == first || len(second.Status.History) == 0 {
		t.Errorf("after the second push %+v is live, as before", second.Status)
	}
	eventually(t, fmt.Sprintf("all %d pods run", swapPods), func() bool {
		list, err := c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "swap=yes"})
		if err != nil {
			t.Fatal(err)
		}
		running := 0
		for i := range list.Items {
			if isRunning(&list.Items[i]) && list.Items[i].Spec.NodeName != "" {
				running++
			}
		}
		return running == swapPods
	})
	c.wantTwoSets(t)
	out := c.must(t, binary, "policy", "rollback", "fill")
	if got := c.policy(t, "fill").Status.Live; got != first {
		t.Errorf("after the rollback %s is live, want %s: %s", got, first, out)
	}
}

// submitWhile submits the pods from four clients and calls swap in the middle.
func (c *cluster) submitWhile(t *testing.T, swap func()) {
	t.Helper()
	var all, begun sync.WaitGroup
	begun.Add(swapFirst)
	swapped := make(chan struct{})
	numbers := make(chan int)
	for range 4 {
		all.Go(func() {
			for i := range numbers {
				p := smallPod(fmt.Sprintf("swap-%d", i), nil)
				p.Labels = map[string]string{"swap": "yes"}
				c.submit(t, p)
				if i < swapFirst {
					begun.Done()
				}
			}
		})
	}
	all.Go(func() {
		defer close(numbers)
		for i := range swapPods {
			if i == swapPods-swapLast {
				<-swapped
			}
			numbers <- i
		}
	})
	begun.Wait()
	c.awaitPod(t, "swap-0", "runs", isRunning)
	swap()
	close(swapped)
	all.Wait()
}

// wantTwoSets walks all decisions: each is of the set before the swap or of
// the one after it.
func (c *cluster) wantTwoSets(t *testing.T) {
	t.Helper()
	sets := make([]int64, swapPods)
	var walk sync.WaitGroup
	numbers := make(chan int)
	for range 4 {
		walk.Go(func() {
			for i := range numbers {
				r := c.reportOf(t, fmt.Sprintf("swap-%d", i))
				if r.Derived == "decision" {
					sets[i] = r.Set
				}
			}
		})
	}
	for i := range swapPods {
		numbers <- i
	}
	close(numbers)
	walk.Wait()
	before, after := sets[0], sets[swapPods-1]
	if before == 0 || before >= after {
		t.Fatalf("the first pod was decided by set %d, the last by set %d", before, after)
	}
	for i, set := range sets {
		if set != before && set != after || i >= swapPods-swapLast && set != after {
			t.Errorf("pod %d was decided by set %d; live were %d, then %d", i, set, before, after)
		}
	}
}

// reportOf is report for goroutines: it tells of errors, and goes on.
func (c *cluster) reportOf(t *testing.T, pod string) (r explain.Report) {
	out, said, err := c.try(binary, "explain", "pod", pod, "-o", "json", "--limit", "1")
	if err != nil {
		t.Errorf("explain pod %s: %v: %s", pod, err, said)
		return r
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Errorf("explain pod %s: %v", pod, err)
	}
	return r
}

func (c *cluster) testRefusals(t *testing.T) {
	before := c.policy(t, "gpu-only").Status
	header := "\x00asm\x01\x00\x00\x00"
	function := "\x01\x04\x01\x60\x00\x00" // a type section: func()
	for _, refused := range []struct{ name, wasm, why string }{
		{"a text", "all the words there are", "WebAssembly"},
		{"half a module", header + "\x01\x7f", "refused"},
		{"no marker", header, "berth_abi_v1"},
		{"another ABI", header + function + "\x03\x02\x01\x00\x07\x10\x01\x0cberth_abi_v9\x00\x00\x0a\x04\x01\x02\x00\x0b", "berth_abi_v"},
		{"an import of its own", header + function + "\x02\x0b\x01\x03env\x03sys\x00\x00", "env"},
	} {
		t.Run(refused.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "policy.wasm")
			if err := os.WriteFile(file, []byte(refused.wasm), 0o600); err != nil {
				t.Fatal(err)
			}
			if said := c.mustFail(t, binary, "policy", "push", "gpu-only", file); !strings.Contains(said, refused.why) {
				t.Errorf("push says %q, want it to name %q", said, refused.why)
			}
			if diff := cmp.Diff(before, c.policy(t, "gpu-only").Status); diff != "" {
				t.Errorf("the refused module changed the policy:\n%s", diff)
			}
		})
	}
	t.Run("an entry that the module lacks", func(t *testing.T) {
		c.must(t, c.kubectl, "patch", "policy.policy.berth.dev", "gpu-only", "--type=merge", "-p", `{"spec":{"entry":"Nothing"}}`)
		var is v1alpha1.Policy
		eventually(t, "the policy is refused", func() bool {
			is = c.policy(t, "gpu-only")
			return is.Status.Phase == "Refused"
		})
		if is.Status.Live != before.Live || !strings.Contains(is.Status.Message, "Nothing") {
			t.Errorf("status = %+v, want %s to stay live and a message that names the entry", is.Status, before.Live)
		}
		if got := c.refusals(t, "still")["sim-7"]; len(got) != 1 || got[0].Reason != "node is kept for GPU pods" {
			t.Errorf("sim-7 refuses for %+v: the live policy decides no more", got)
		}
		c.must(t, c.kubectl, "patch", "policy.policy.berth.dev", "gpu-only", "--type=merge", "-p", `{"spec":{"entry":"GPUOnly"}}`)
		eventually(t, "the policy is live again", func() bool { return c.policy(t, "gpu-only").Status.Phase == "Live" })
	})
}
