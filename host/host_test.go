package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
)

func TestMain(m *testing.M) {
	engine.ChildProgram = enginetest.Compiler()
	os.Exit(m.Run())
}

// start runs a host on dir until the test ends or stop is called.
func start(t testing.TB, dir string, changes ...func(*host.Config)) (client kubernetes.Interface, serving host.Serving, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan host.Serving, 1)
	ended := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	config := host.Config{DataDir: dir, Compiled: enginetest.Cache(), Listen: "127.0.0.1:0", Log: log}
	config.NodeGrace = time.Hour // nobody renews the tests' nodes, however slow the machine is
	for _, change := range changes {
		change(&config)
	}
	go func() {
		ended <- host.Run(ctx, config, func(s host.Serving) { ready <- s })
	}()
	select {
	case serving = <-ready:
	case err := <-ended:
		t.Fatalf("host ended: %v", err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("host ended: %v", err)
		}
	}
	t.Cleanup(stop)
	cfg, err := clientcmd.BuildConfigFromFlags("", serving.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	if client, err = kubernetes.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	return client, serving, stop
}

// A start that fails says why, and not what else went wrong because of that.
func TestAStartThatFailsSaysOnlyWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk, err := badger.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.Commit(t.Context(), store.Batch{Revision: 1, Puts: []store.Record{{Key: "strange", Revision: 1}}}); err != nil {
		t.Fatal(err)
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	err = host.Run(t.Context(), host.Config{DataDir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}, func(host.Serving) {})
	if !errors.Is(err, store.ErrFormat) || errors.Is(err, syscall.EBADF) {
		t.Errorf("the start ended with %v, want the data's format alone", err)
	}
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	fmt.Fprint(os.Stderr, l.t.Name(), ": ", string(p))
	return len(p), nil
}

func readyNode(name string) *v1.Node {
	amounts := v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: v1.NodeStatus{Capacity: amounts, Allocatable: amounts, Conditions: []v1.NodeCondition{
			{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"},
		}},
	}
}

func plainPod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "c", Image: "example.test/app:1",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("500Mi")}},
		}}},
	}
}

// bound waits until the pod has a node.
func bound(t testing.TB, client kubernetes.Interface, name string) *v1.Pod {
	t.Helper()
	return await(t, client, name, "is bound", func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
}

func await(t testing.TB, client kubernetes.Interface, name, what string, done func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	pods := client.CoreV1().Pods("default")
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	last := &v1.Pod{}
	for ev := range w.ResultChan() {
		pod, ok := ev.Object.(*v1.Pod)
		if !ok || ev.Type == watch.Deleted {
			t.Fatalf("watch of %s: %v %+v", name, ev.Type, ev.Object)
		}
		if last = pod; done(pod) {
			return pod
		}
	}
	t.Fatalf("pod %s never %s: %+v", name, what, last.Status)
	return nil
}

func create(t testing.TB, client kubernetes.Interface, pod *v1.Pod) {
	t.Helper()
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func createNode(t testing.TB, client kubernetes.Interface, name string) {
	t.Helper()
	if _, err := client.CoreV1().Nodes().Create(t.Context(), readyNode(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAPodIsBoundByPolicies(t *testing.T) {
	t.Parallel()
	client, _, _ := start(t, t.TempDir())
	create(t, client, plainPod("early"))
	waiting := await(t, client, "early", "is told why it waits", func(p *v1.Pod) bool { return len(p.Status.Conditions) > 0 })
	if c := waiting.Status.Conditions[0]; c.Type != v1.PodScheduled || c.Reason != v1.PodReasonUnschedulable {
		t.Errorf("condition of a pod without nodes = %+v", c)
	}
	createNode(t, client, "n1")
	if pod := bound(t, client, "early"); pod.Spec.NodeName != "n1" {
		t.Errorf("bound to %s, want n1", pod.Spec.NodeName)
	}
}

func TestARestartKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	client, _, stop := start(t, dir)
	createNode(t, client, "n1")
	create(t, client, plainPod("a"))
	before := bound(t, client, "a")
	stop()
	client, _, _ = start(t, dir)
	after := bound(t, client, "a")
	if before.UID != after.UID || before.Spec.NodeName != after.Spec.NodeName {
		t.Errorf("after a restart the pod is %s on %s, want %s on %s", after.UID, after.Spec.NodeName, before.UID, before.Spec.NodeName)
	}
	create(t, client, plainPod("b"))
	bound(t, client, "b")
}

// Who can listen where a host did can open its directory, too.
func TestThePortIsFreeWhenTheLockIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, serving, stop := start(t, dir)
	address := strings.TrimPrefix(serving.URL, "https://")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	var listener net.Listener
	for err := errors.New("taken"); err != nil; {
		listener, err = net.Listen("tcp", address)
	}
	disk, err := badger.Open(filepath.Join(dir, "store"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Errorf("the port is free, and the directory is not: %v", err)
	} else if err := disk.Close(); err != nil {
		t.Error(err)
	}
	_ = listener.Close()
	<-ended
}
