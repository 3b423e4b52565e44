package api_test

import (
	"net/http"
	"strings"
	"testing"
)

const held = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"held","finalizers":["example.com/hold"]}}`

func TestForceIsForAppliesAlone(t *testing.T) {
	t.Parallel()
	c := newCurl(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	c.ask(http.MethodPost, maps, held, "Content-Type", "application/json")
	for media, want := range map[string]int{
		"application/merge-patch+json":           http.StatusUnprocessableEntity,
		"application/strategic-merge-patch+json": http.StatusUnprocessableEntity,
		"application/apply-patch+yaml":           http.StatusOK,
	} {
		for _, force := range []string{"true", "false"} {
			answer, doc := c.ask(http.MethodPatch, maps+"/held?fieldManager=me&force="+force, strings.Replace(held, `"finalizers"`, `"labels":{"a":"b"},"finalizers"`, 1), "Content-Type", media)
			if answer.StatusCode != want {
				t.Errorf("%s with force=%s = %d, want %d: %v", media, force, answer.StatusCode, want, at(doc, "message"))
			}
		}
	}
}

// As with Kubernetes: clients of old read 202 as the sign that dependents go first.
func TestADeletionThatWaitsIsAcceptedOnlyForThoseWhoOrphanNot(t *testing.T) {
	t.Parallel()
	c := newCurl(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	c.ask(http.MethodPost, maps, held, "Content-Type", "application/json")
	for query, want := range map[string]int{
		"":                              http.StatusOK,
		"?propagationPolicy=Background": http.StatusOK,
		"?propagationPolicy=Foreground": http.StatusOK,
		"?orphanDependents=true":        http.StatusOK,
		"?orphanDependents=false":       http.StatusAccepted,
	} {
		if answer, doc := c.ask(http.MethodDelete, maps+"/held"+query, ""); answer.StatusCode != want || at(doc, "metadata.deletionTimestamp") == nil {
			t.Errorf("DELETE %s = %d %v, want %d and the object with its mark", query, answer.StatusCode, doc, want)
		}
	}
}
