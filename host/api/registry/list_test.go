package registry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A list that is gone on with too late is refused, with a token by which the rest
// can be had as it is now.
func TestAContinueTokenExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := openRegistry(t)
		put := func(name string) {
			t.Helper()
			if _, err := reg.Create(t.Context(), On("configmaps", "ns", ""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		list := func(token string) (string, *List) {
			t.Helper()
			found, err := reg.List(t.Context(), On("configmaps", "ns", ""), ListOptions{Limit: 3, Continue: token})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, o := range found.Items {
				names = append(names, o.GetName())
			}
			return strings.Join(names, " "), found
		}
		for i := range 8 {
			put(fmt.Sprint("m", i))
		}
		_, first := list("")
		put("m35") // comes between, after the first page
		time.Sleep(4 * time.Minute)
		if names, _ := list(first.Continue); names != "m3 m4 m5" {
			t.Errorf("the second page is %s, want it as it was at the first", names)
		}
		time.Sleep(2 * time.Minute)
		_, err := reg.List(t.Context(), On("configmaps", "ns", ""), ListOptions{Limit: 3, Continue: first.Continue})
		var status apierrors.APIStatus
		if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().Continue == "" {
			t.Fatalf("six minutes later: %v, want that it expired, with a token to go on by", err)
		}
		time.Sleep(time.Hour)
		names, rest := list(status.Status().Continue)
		if names != "m3 m35 m4" || rest.Revision == first.Revision || *rest.RemainingItems != 3 {
			t.Errorf("the rest is %s of revision %d, and %d are to come; want it as it is now", names, rest.Revision, *rest.RemainingItems)
		}
		if names, rest = list(rest.Continue); names != "m5 m6 m7" || rest.Continue != "" {
			t.Errorf("the last page is %s", names)
		}
	})
}
