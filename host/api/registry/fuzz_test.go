package registry

import (
	"testing"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func openRegistry(t testing.TB) *Registry {
	t.Helper()
	st, err := store.Open(t.Context(), store.NewMemory(), kind.Codec{}, store.Options{Indexes: Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	reg := New(Config{Store: st})
	if _, err := reg.Create(t.Context(), On("namespaces", "", ""), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}); err != nil {
		t.Fatal(err)
	}
	return reg
}

// blamed tells whether an error is one that a client causes.
func blamed(err error) bool {
	status, ok := err.(apierrors.APIStatus)
	return ok && status.Status().Code >= 400 && (status.Status().Code < 500 || status.Status().Code == 504)
}

// FuzzSelector gives anything as selectors.
func FuzzSelector(f *testing.F) {
	f.Add("app in (a, b),!c", "spec.nodeName=n1,status.phase!=Failed")
	f.Add("a=b", "metadata.name==x")
	f.Add("((", "\\,=")
	f.Fuzz(func(t *testing.T, labels, fields string) {
		s, err := ParseSelector(On("pods", "", ""), labels, fields)
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Fatalf("ParseSelector(%q, %q) = %v, want BadRequest", labels, fields, err)
			}
			return
		}
		if match := s.match(podKind); match != nil {
			match(&corev1.Pod{})
		}
	})
}

// FuzzContinue gives anything as a continue token.
func FuzzContinue(f *testing.F) {
	reg := openRegistry(f)
	f.Add(token{Revision: 1, After: "ns/a"}.String())
	f.Add("e30")
	f.Add("%%%")
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return
		}
		if _, err := reg.List(t.Context(), On("pods", "", ""), ListOptions{Continue: text}); err != nil && !apierrors.IsBadRequest(err) && !apierrors.IsResourceExpired(err) {
			t.Fatalf("List(continue %q) = %v", text, err)
		}
	})
}

// FuzzWatch gives anything as the parameters of a watch.
func FuzzWatch(f *testing.F) {
	reg := openRegistry(f)
	f.Add("0", false)
	f.Add("18446744073709551615", true)
	f.Add("-1", true)
	f.Fuzz(func(t *testing.T, version string, initial bool) {
		w, err := reg.Watch(t.Context(), On("pods", "", ""), WatchOptions{ResourceVersion: version, InitialEvents: initial})
		if err == nil {
			w.Stop()
			return
		}
		if !blamed(err) {
			t.Fatalf("Watch(%q) = %v", version, err)
		}
	})
}

// FuzzPatch gives anything as patches of every type.
func FuzzPatch(f *testing.F) {
	reg := openRegistry(f)
	if _, err := reg.Create(f.Context(), On("configmaps", "ns", ""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"a": "1"}}); err != nil {
		f.Fatal(err)
	}
	kinds := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyPatchType}
	f.Add(uint8(0), []byte(`[{"op":"copy","from":"/data","path":"/data/x"}]`))
	f.Add(uint8(1), []byte(`{"data":{"a":null},"metadata":{"name":"d"}}`))
	f.Add(uint8(2), []byte(`{"metadata":{"finalizers":["a/b"],"$setElementOrder/finalizers":["x"]}}`))
	f.Add(uint8(3), []byte("apiVersion: v1\nkind: ConfigMap\ndata: {b: c}"))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		r := On("configmaps", "ns", "c")
		r.DryRun, r.Manager = true, "fuzz"
		_, _, err := reg.Patch(t.Context(), r, Patch{Type: kinds[which%4], Data: data})
		if err != nil && !blamed(err) {
			t.Fatalf("Patch(%s, %q) = %v", kinds[which%4], data, err)
		}
	})
}
