package replicaset_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/sdk/policytest"
)

const set = `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web"},"spec":{"replicas":3,
	"selector":{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"old","operator":"DoesNotExist"}]},
	"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"web:1"}]}}}}`

// The world that authors play in does with a ReplicaSet what a cluster does: it
// adopts, releases, replaces, scales, says how it is, and rests.
func TestAReplicaSetInAWorldOfAuthors(t *testing.T) {
	t.Parallel()
	policytest.Play(t, "ReplicaSet", "", func(w *policytest.World) {
		w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"orphan","labels":{"app":"web"}}}`)
		w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"other","namespace":"else","labels":{"app":"web"}}}`)
		w.Create(set)
		w.Wait(time.Minute)
		pods := w.Names("Pod")
		if len(pods) != 4 || !slices.Contains(pods, "orphan") || w.Field("Pod", "orphan", "metadata.ownerReferences") == "" {
			t.Fatalf("there are %q, and the orphan is of %s", pods, w.Field("Pod", "orphan", "metadata.ownerReferences"))
		}
		w.WantField("ReplicaSet", "web", "status.readyReplicas", "3")
		w.WantField("ReplicaSet", "web", "status.replicas", "3")

		w.Change("Pod", "orphan", `{"metadata":{"labels":{"old":"yes"}}}`)
		w.Wait(time.Minute)
		if refs := w.Field("Pod", "orphan", "metadata.ownerReferences"); refs != "[]" || len(w.Names("Pod")) != 5 {
			t.Errorf("what it does not select any more is of %s, and there are %q", refs, w.Names("Pod"))
		}
		w.Events()
		w.Change("ReplicaSet", "web", `{"spec":{"replicas":1}}`)
		w.Wait(time.Minute)
		w.WantField("ReplicaSet", "web", "status.replicas", "1")
		w.WantField("ReplicaSet", "web", "status.observedGeneration", "2")
		if events := w.Events(); len(events) != 2 || !strings.HasPrefix(events[0], "ReplicaSet/web Normal SuccessfulDelete: Deleted pod: web-") {
			t.Errorf("events %q", events)
		}
		w.Refuse("Pod", "exceeded quota")
		w.Change("ReplicaSet", "web", `{"spec":{"replicas":2}}`)
		w.Wait(time.Minute)
		if conditions := w.Field("ReplicaSet", "web", "status.conditions"); !strings.Contains(conditions, "FailedCreate") {
			t.Errorf("conditions of what is refused are %s", conditions)
		}
		w.Refuse("Pod", "")
		w.Wait(time.Minute)
		w.WantField("ReplicaSet", "web", "status.replicas", "2")
		w.WantField("ReplicaSet", "web", "status.conditions", "[]")
		w.Delete("ReplicaSet", "web")
		w.Wait(time.Minute)
		w.Want("Pod", "else/other", "orphan")
	})
}
