package status

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func podNamed(name, version string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u", ResourceVersion: version}}
}

func running() v1.PodStatus {
	return v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
}

func TestPatchHoldsWhatChanged(t *testing.T) {
	t.Parallel()
	p := podNamed("p", "5")
	p.Status = v1.PodStatus{Phase: v1.PodPending, HostIP: "192.0.2.1", Conditions: []v1.PodCondition{
		{Type: "example.com/theirs", Status: v1.ConditionTrue}, {Type: v1.PodReady, Status: v1.ConditionFalse}}}
	want := running()
	want.HostIP = "192.0.2.1"
	patch, err := Patch(p, want)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metadata map[string]string
		Status   struct {
			Phase, HostIP string
			Conditions    []map[string]any
		}
	}
	if err := json.Unmarshal(patch, &got); err != nil {
		t.Fatal(err)
	}
	if got.Metadata["uid"] != "u" || got.Metadata["resourceVersion"] != "" || got.Status.Phase != "Running" || got.Status.HostIP != "" {
		t.Errorf("patch %s", patch)
	}
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0]["type"] != "Ready" {
		t.Errorf("the patch touches another's condition: %s", patch)
	}
	p.Status, _ = merge(p, want)
	if patch, err := Patch(p, want); err != nil || patch != nil {
		t.Errorf("nothing changed, patch %s, %v", patch, err)
	}
}

func TestGateThatNobodySetStartsFalseIfNobodyWasFaster(t *testing.T) {
	t.Parallel()
	p := podNamed("p", "5")
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "g"}}
	patch, err := Patch(p, running())
	if err != nil {
		t.Fatal(err)
	}
	var got v1.Pod
	if err := json.Unmarshal(patch, &got); err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Status.Conditions {
		if c.Type == "g" && c.Reason+c.Message != "" {
			t.Errorf("%q would stay when somebody sets the gate by a patch of its status alone", c.Reason+" "+c.Message)
		}
	}
	if got.ResourceVersion != "5" || len(got.Status.Conditions) != 2 || got.Status.Conditions[1].Type != "g" && got.Status.Conditions[0].Type != "g" {
		t.Errorf("patch %s", patch)
	}
}

func start(t *testing.T, api *fake.Clientset) *Writer {
	w := New(api.CoreV1(), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func TestStatusIsTriedAgainTillTheAPITakesIt(t *testing.T) {
	t.Parallel()
	p := podNamed("p", "1")
	api := fake.NewClientset(p)
	var tries atomic.Int32
	api.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if tries.Add(1) < 3 {
			return true, nil, errors.New("the API is away")
		}
		return false, nil, nil
	})
	start(t, api).Set(p, running())
	for range 6000 {
		got, err := api.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		if err == nil && got.Status.Phase == v1.PodRunning {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the status never arrives after %d tries", tries.Load())
}

func TestFinalReportsThenRemoves(t *testing.T) {
	t.Parallel()
	p := podNamed("p", "1")
	api := fake.NewClientset(p)
	w := start(t, api)
	if err := w.Final(t.Context(), p, v1.PodStatus{Phase: v1.PodSucceeded}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod is still there: %v", err)
	}
	var verbs []string
	for _, a := range api.Actions() {
		if a.GetVerb() != "get" {
			verbs = append(verbs, a.GetVerb())
		}
	}
	if len(verbs) != 2 || verbs[0] != "patch" || verbs[1] != "delete" {
		t.Errorf("did %v, want patch, delete", verbs)
	}
	if err := w.Final(t.Context(), p, v1.PodStatus{Phase: v1.PodSucceeded}); err != nil {
		t.Errorf("a pod that is gone already: %v", err)
	}
}

func TestNewerVersionsWin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{{"2", "1", true}, {"10", "9", true}, {"9", "10", false}, {"5", "5", false}, {"", "1", true}} {
		if got := newer(podNamed("p", test.a), podNamed("p", test.b)); got != test.want {
			t.Errorf("newer(%q, %q) = %v, want %v", test.a, test.b, got, test.want)
		}
	}
}

func TestNobodyWaitsForAWriterThatEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(fake.NewClientset().CoreV1(), slog.New(slog.DiscardHandler))
		for i := range cap(w.work) + 10 {
			w.Set(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(strconv.Itoa(i))}}, v1.PodStatus{})
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		// The bubble fails if a goroutine stays.
	})
}
