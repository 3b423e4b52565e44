package admission

import (
	"errors"
	"testing"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// lender remembers the watches that it gives. One of them it refuses.
type lender struct {
	view.Live
	given   []*store.Watch
	asked   int
	refuses int
}

func (l *lender) Watch(resource, namespace string, from int64) (*store.Watch, error) {
	if l.asked++; l.asked == l.refuses {
		return nil, errors.New("no watch today")
	}
	w, err := l.Live.Watch(resource, namespace, from)
	if err == nil {
		l.given = append(l.given, w)
	}
	return w, err
}

// heard counts what the watches have to tell: nothing new once all are stopped.
func (l *lender) heard() (n int) {
	for _, w := range l.given {
		for {
			events, err := w.Next(ended)
			if err != nil {
				break
			}
			n += len(events)
		}
	}
	return n
}

func TestBooksThatAreClosedFollowNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		history int
		refuses int
		quotas  []string
		then    func(*testing.T, *cluster)
		watches int
	}{
		"their quota went":                   {quotas: []string{"q"}, watches: 2},
		"its spec changed":                   {quotas: []string{"q"}, then: grow, watches: 4},
		"they fell behind the history":       {quotas: []string{"q"}, history: 4, then: crowd, watches: 4},
		"one half could not be opened":       {quotas: []string{"q"}, refuses: 2, watches: 3},
		"the one beside could not be opened": {quotas: []string{"q", "r"}, refuses: 3, watches: 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClusterOver(t, store.Options{MaxEvents: test.history})
			from := &lender{Live: view.Of(c.store), refuses: test.refuses}
			chain := New(Config{Objects: from, Access: c.auth.Access, Defaults: c.auth.Defaults})
			c.Registry = registry.New(registry.Config{Store: c.store}) // which opens no books yet
			for _, q := range test.quotas {
				c.quota(t, q, corev1.ResourceQuotaSpec{Hard: resources("pods", "100", "configmaps", "100")})
			}
			c.Registry = registry.New(registry.Config{Store: c.store, Admission: chain, Tokens: c.auth})
			if _, err := c.pod(t, nil); (err != nil) != (test.refuses > 0) {
				t.Fatalf("create a pod: %v", err)
			}
			if test.then != nil {
				test.then(t, c)
			}
			c.create(t, "pods", "dev", plainPod())
			for _, q := range test.quotas {
				if _, _, err := c.Delete(t.Context(), registry.On("resourcequotas", "dev", q), nil); err != nil {
					t.Fatal(err)
				}
			}
			c.create(t, "pods", "dev", plainPod())
			from.heard()
			for range 2 {
				c.create(t, "pods", "dev", plainPod())
				c.create(t, "configmaps", "dev", &corev1.ConfigMap{ObjectMeta: plainPod().ObjectMeta})
			}
			if heard := from.heard(); heard != 0 || len(from.given) != test.watches {
				t.Errorf("%d watches were begun, and without a quota they tell of %d events, want %d and 0", len(from.given), heard, test.watches)
			}
		})
	}
}

func grow(t *testing.T, c *cluster) {
	if _, err := c.Modify(t.Context(), registry.On("resourcequotas", "dev", "q"), func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(*corev1.ResourceQuota)
		next.Spec.Hard["pods"] = resource.MustParse("200")
		return next, nil
	}); err != nil {
		t.Fatal(err)
	}
}

// crowd makes more pods than the history holds, past admission.
func crowd(t *testing.T, c *cluster) {
	for range 5 {
		pod := plainPod()
		pod.Namespace, pod.Name = "dev", "p"
		at := store.Key{Resource: "pods", Namespace: "dev", Name: "p"}
		for _, op := range []store.Op{{Kind: store.Create, Key: at, Object: pod}, {Kind: store.Delete, Key: at}} {
			if _, _, err := c.store.Commit(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
	}
}
