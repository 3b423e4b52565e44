package revision

import (
	stdjson "encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/controller/history"

	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

func TestNamesAreThoseOfKubernetes(t *testing.T) {
	t.Parallel()
	for i, data := range []string{"", `{}`, `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"ä"}}}}}`, strings.Repeat("x", 70_000)} {
		for _, parent := range []string{"web", strings.Repeat("w", 253)} {
			for _, collisions := range []int32{0, 1, 17, math.MaxInt32} {
				rev := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(data)}}
				want := history.ControllerRevisionName(parent, history.HashControllerRevision(rev, &collisions))
				if got := Name(parent, Hash(data, int64(collisions))); got != want {
					t.Errorf("case %d of %s, %d collisions: %s, want %s", i, parent, collisions, got, want)
				}
			}
		}
	}
}

func TestNewIsThatOfKubernetes(t *testing.T) {
	t.Parallel()
	data := `{"spec":{"template":{"$patch":"replace"}}}`
	labels, err := json.Parse([]byte(`{"app":"web","controller.kubernetes.io/hash":"mine"}`))
	if err != nil {
		t.Fatal(err)
	}
	parent := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	none := int32(0)
	want, err := history.NewControllerRevision(parent, appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		map[string]string{"app": "web", HashLabel: "mine"}, runtime.RawExtension{Raw: []byte(data)}, 7, &none)
	if err != nil {
		t.Fatal(err)
	}
	hash := Hash(data, 0)
	c := New(&reconcile.Object{Name: "web"}, Name("web", hash), HashLabel, hash, labels, data, 7)
	got := new(appsv1.ControllerRevision)
	if err := stdjson.Unmarshal([]byte(c.Object), got); err != nil {
		t.Fatalf("%v: %s", err, c.Object)
	}
	if got.Name != want.Name || fmt.Sprint(got.Labels) != fmt.Sprint(want.Labels) || string(got.Data.Raw) != data || got.Revision != 7 {
		t.Errorf("New() = %+v, want %+v", got, want)
	}
}

func TestTruncateKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	var list []Revision
	for i := range int64(6) {
		name := string(rune('a' + i))
		list = append(list, Revision{&reconcile.Object{Name: name, UID: name}, "", i})
	}
	for limit, want := range map[int64]string{-1: "", 0: "acdf", 2: "ac", 4: "", 9: ""} {
		var out reconcile.Result
		Truncate(list, map[string]bool{"b": true, "e": true}, limit, &out)
		got := ""
		for _, d := range out.Delete {
			got += d.UID
		}
		if got != want {
			t.Errorf("limit %d deletes %q, want %q", limit, got, want)
		}
	}
}
