package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/sdk/policytest"
)

const cache = `{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"cache","annotations":{"example.test/pod-per":"zone"}},
	"template":{"metadata":{"labels":{"app":"cache"}},"spec":{"containers":[{"name":"cache","image":"cache:1"}]}}}`

func node(w *policytest.World, name, zone string) {
	w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"labels":{"zone":%q}}}`, name, zone))
}

// placed are the pods' values, each with the pod's label of the template.
func placed(w *policytest.World) (found []string) {
	for _, name := range w.Names("Pod") {
		found = append(found, w.Field("Pod", name, "spec.nodeSelector.zone"))
		w.WantField("Pod", name, "metadata.labels.app", `"cache"`)
	}
	slices.Sort(found)
	return found
}

func want(t *testing.T, w *policytest.World, zones ...string) {
	t.Helper()
	if got := placed(w); !slices.Equal(got, zones) {
		t.Errorf("pods are for %q, want %q", got, zones)
	}
}

func TestEachZoneHasAPod(t *testing.T) {
	t.Parallel()
	policytest.Play(t, "PodPerValue", "", func(w *policytest.World) {
		node(w, "a1", "a")
		node(w, "a2", "a")
		node(w, "b1", "b")
		w.Create(cache)
		if why := w.Why("cache"); why != "0 of 2 values of zone have a ready pod" {
			t.Errorf("it waits for %q", why)
		}
		w.Wait(time.Minute)
		want(t, w, `"a"`, `"b"`)

		node(w, "c1", "c")
		w.Wait(time.Minute)
		want(t, w, `"a"`, `"b"`, `"c"`)

		w.Delete("Node", "c1")
		w.Wait(time.Minute)
		want(t, w, `"a"`, `"b"`)

		was := w.Names("Pod")
		w.SetPod(was[0], policytest.PodStatus{Phase: "Failed"})
		w.Vanish("Pod", was[1])
		w.Wait(time.Minute)
		want(t, w, `"a"`, `"b"`)
		if is := w.Names("Pod"); slices.Contains(is, was[0]) || slices.Contains(is, was[1]) {
			t.Errorf("pods that ended and vanished are still there: %q", is)
		}
		if why := w.Why("cache"); why != "" {
			t.Errorf("it waits for %q though all are ready", why)
		}

		w.Delete("PodTemplate", "cache")
		w.Wait(time.Minute)
		w.Want("Pod")
	})
}

func TestAQuotaHoldsItBack(t *testing.T) {
	t.Parallel()
	policytest.Play(t, "PodPerValue", "", func(w *policytest.World) {
		w.Refuse("Pod", "exceeded quota: pods=0")
		node(w, "a1", "a")
		w.Create(cache)
		w.Wait(time.Second)
		w.Want("Pod")
		if events := w.Events(); !slices.Equal(events, []string{"PodTemplate/cache Warning FailedCreate: Error creating: exceeded quota: pods=0"}) {
			t.Errorf("events %q", events)
		}
		w.Refuse("Pod", "")
		w.Wait(time.Minute)
		want(t, w, `"a"`)
	})
}

func TestATemplateThatAsksForNothingGetsNothing(t *testing.T) {
	t.Parallel()
	policytest.Play(t, "PodPerValue", "", func(w *policytest.World) {
		node(w, "a1", "a")
		w.Create(cache)
		w.Wait(time.Minute)
		w.Change("PodTemplate", "cache", `{"metadata":{"annotations":null}}`)
		w.Wait(time.Minute)
		w.Want("Pod")
	})
}
