package status

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestFlushSendsWithoutRun: the last status gets through when the loops have
// ended, also if the API refuses it twice.
func TestFlushSendsWithoutRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := podNamed("p", "1")
		api := fake.NewClientset(p)
		tries := 0
		api.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if tries++; tries < 3 {
				return true, nil, errors.New("the API is away")
			}
			return false, nil, nil
		})
		w := New(api.CoreV1(), slog.New(slog.DiscardHandler))
		w.Set(p, running())
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := api.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil || got.Status.Phase != v1.PodRunning {
			t.Errorf("status %+v, %v after %d tries", got.Status, err, tries)
		}
	})
}
