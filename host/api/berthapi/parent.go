package berthapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/explain"
)

// explainParent answers GET /berth/v1/explain?resource=deployments.apps&namespace=default&name=web
// to who may get that object, and of its children to who may list them.
func (a *API) explainParent(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	resource, namespace, name := query.Get("resource"), query.Get("namespace"), query.Get("name")
	k := kindNamed(resource)
	if k == nil {
		http.Error(w, fmt.Sprintf("no resource %q is served: `kubectl api-resources` shows those there are", resource), http.StatusNotFound)
		return
	}
	if !k.Namespaced {
		namespace = ""
	}
	if !a.mayGet(w, r, k, namespace, name) {
		return
	}
	family := explain.Family{Objects: a.Store, Drivers: a.Drivers(), May: func(child *kind.Kind) bool { return a.may(r, "list", child, namespace, "") }}
	report := family.Of(k, namespace, name)
	if report == nil {
		http.Error(w, fmt.Sprintf("%s %q not found", k.StoreName(), name), http.StatusNotFound)
		return
	}
	_ = answerJSON(w, report)
}

// may tells whether who asks may do something with an object.
func (a *API) may(r *http.Request, verb string, k *kind.Kind, namespace, name string) bool {
	user, _ := request.UserFrom(r.Context())
	decision, _, err := a.May.Authorize(r.Context(), authorizer.AttributesRecord{
		User: user, Verb: verb, APIGroup: k.GroupResource().Group, APIVersion: k.Stored().Version, Resource: k.Resource,
		Namespace: namespace, Name: name, ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}

// mayGet answers who may not get the object of which he asks.
func (a *API) mayGet(w http.ResponseWriter, r *http.Request, k *kind.Kind, namespace, name string) bool {
	ok := a.may(r, "get", k, namespace, name)
	if !ok {
		http.Error(w, fmt.Sprintf("you may not get %s %q in the namespace %q, so you are not told of it", k.StoreName(), name, namespace), http.StatusForbidden)
	}
	return ok
}

// kindNamed finds a stored kind by any of the names that kubectl knows it by:
// deployments, deployment, deploy, deployments.apps.
func kindNamed(text string) *kind.Kind {
	name, group, qualified := strings.Cut(strings.ToLower(text), ".")
	for _, k := range kind.All {
		of := k.GroupResource().Group
		if k.Strategy == nil || qualified && of != group && !strings.HasSuffix(group, "."+of) {
			continue
		}
		if name == k.Resource || name == strings.ToLower(k.Name) || slices.Contains(k.Short, name) {
			return k
		}
	}
	return nil
}
