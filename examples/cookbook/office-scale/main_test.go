package main

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/sdk/policytest"
)

const web = `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":3},"metadata":{"name":"web",
	"annotations":{"example.test/office-replicas":"10","example.test/replicas":"2"}}}`

// A world begins at midnight before Thursday, the first of January.
func TestAWeekOfOfficeHours(t *testing.T) {
	t.Parallel()
	policytest.Play(t, "OfficeScale", `{"from":9,"till":17,"minutesAheadOfUTC":60}`, func(w *policytest.World) {
		w.Create(web)
		w.WantField("Deployment", "web", "spec.replicas", "2")
		for _, at := range []struct {
			day, hour int // in UTC
			want      string
		}{{0, 7, "2"}, {0, 8, "10"}, {0, 15, "10"}, {0, 16, "2"}, {1, 8, "10"}, {1, 16, "2"}, {2, 12, "2"}, {4, 9, "10"}} {
			w.Wait(policytest.Beginning.AddDate(0, 0, at.day).Add(time.Duration(at.hour) * time.Hour).Sub(w.Now()))
			w.WantField("Deployment", "web", "spec.replicas", at.want)
		}
		if got := w.Events(); len(got) != 6 || got[1] != "Deployment/web Normal OfficeHours: Scaled to 10" {
			t.Errorf("events %q", got)
		}
		w.Change("Deployment", "web", `{"spec":{"replicas":4}}`)
		w.WantField("Deployment", "web", "spec.replicas", "10")
	})
	policytest.Refuses(t, "OfficeScale", `{"form":9}`)
	policytest.Refuses(t, "OfficeScale", `{"from":25}`)
}

func TestWhatItLeavesAlone(t *testing.T) {
	t.Parallel()
	policytest.Play(t, "OfficeScale", "", func(w *policytest.World) {
		w.Create(web)
		w.Change("Deployment", "web", `{"metadata":{"annotations":{"example.test/replicas":"few"}},"spec":{"replicas":5}}`)
		w.Create(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"plain"},"spec":{"replicas":7}}`)
		w.Events()
		w.Wait(time.Hour)
		w.WantField("Deployment", "web", "spec.replicas", "5")
		w.WantField("Deployment", "plain", "spec.replicas", "7")
		if why := w.Why("web"); why != "the annotation example.test/replicas is no number of replicas" || !slices.Equal(w.Events(), nil) {
			t.Errorf("it waits for %q", why)
		}
	})
}
