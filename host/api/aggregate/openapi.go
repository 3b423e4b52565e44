package aggregate

import (
	"context"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Documents are where the OpenAPI v3 documents of what backends serve lie, from
// what Run last read: it waits for nobody. Forward answers there.
func (a *Aggregator) Documents() map[schema.GroupVersion]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[schema.GroupVersion]string{}
	for _, f := range a.found {
		if f.document != "" {
			all[schema.GroupVersion{Group: f.group, Version: f.serves.Version}] = f.document
		}
	}
	return all
}

// document asks a backend whether it describes what it serves, and by which hash.
// Where it says that the document lies is not believed.
func (a *Aggregator) document(ctx context.Context, s *apiregistrationv1.APIService) string {
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := a.fetch(ctx, s, "/openapi/v3", "the list of documents", &index); err != nil {
		a.Log.Debug("no OpenAPI documents of an APIService", "apiservice", s.Name, "err", err)
		return ""
	}
	path := "apis/" + s.Spec.Group + "/" + s.Spec.Version
	link, ok := index.Paths[path]
	if !ok {
		return ""
	}
	at := url.URL{Path: "/openapi/v3/" + path}
	if named, err := url.Parse(link.ServerRelativeURL); err == nil && named.Query().Has("hash") {
		at.RawQuery = url.Values{"hash": {named.Query().Get("hash")}}.Encode()
	}
	return at.String()
}
