package main

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestATTLPasses(t *testing.T) {
	t.Parallel()
	policytest.Play(t, "TTLConfigMap", "", func(w *policytest.World) {
		w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"hour","annotations":{"example.test/ttl-seconds":"3600"}}}`)
		w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ever"}}`)
		w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"typo","annotations":{"example.test/ttl-seconds":"1h"}}}`)
		w.Wait(59 * time.Minute)
		w.Want("ConfigMap", "ever", "hour", "typo")
		w.Wait(time.Minute)
		w.Want("ConfigMap", "ever", "typo")
		if why := w.Why("typo"); why != "the annotation example.test/ttl-seconds is no number of seconds" {
			t.Errorf("of a TTL that is none it says %q", why)
		}
		w.Change("ConfigMap", "ever", `{"metadata":{"annotations":{"example.test/ttl-seconds":"5400"}}}`)
		w.Wait(29 * time.Minute)
		w.Want("ConfigMap", "ever", "typo")
		w.Wait(time.Minute)
		w.Want("ConfigMap", "typo")
	})
}
