package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/streaming/pkg/httpstream"
)

// elsewhere tells the group and version of a path that an APIService answers.
func (s *server) elsewhere(r *http.Request) (gv schema.GroupVersion, ok bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if s.Aggregate == nil || parts[0] != "apis" || len(parts) < 3 {
		return gv, false
	}
	gv = schema.GroupVersion{Group: parts[1], Version: parts[2]}
	return gv, !slices.Contains(versions(), gv) && s.Aggregate.Serves(r, gv)
}

// paths reads what a request is about from its path alone: kinds that are served
// elsewhere have no routes.
var paths = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("apis"), GrouplessAPIPrefixes: sets.NewString()}

// forward lets in who may, and hands the request on.
func (s *server) forward(c echo.Context, gv schema.GroupVersion) {
	call := s.begin(c, nil)
	defer call.end()
	info, err := paths.NewRequestInfo(call.r)
	if err == nil {
		call.info = info
		err = call.pass()
	}
	if err != nil {
		call.fail(err)
		return
	}
	call.handOn(gv, info.Verb == "watch" || httpstream.IsUpgradeRequest(call.r))
}

// handOn has a backend answer. Unless it is a stream the backend works now: a slow
// one takes nobody's room here.
func (k *call) handOn(gv schema.GroupVersion, stream bool) {
	if !stream {
		k.leave()
		k.leave = func() {}
	}
	// It answers with the ID itself, and once is enough.
	k.r.Header.Set(auditv1.HeaderAuditID, k.id)
	k.w.Header().Del(auditv1.HeaderAuditID)
	k.server.Aggregate.Forward(k.w, k.r, gv, k.user)
}

// backends are the groups that others serve, without what Berth serves itself.
func (s *server) backends() (groups []discoveryv2.APIGroupDiscovery) {
	if s.Aggregate == nil {
		return nil
	}
	for _, g := range s.Aggregate.Groups() {
		g.Versions = slices.DeleteFunc(slices.Clone(g.Versions), func(v discoveryv2.APIVersionDiscovery) bool {
			return slices.Contains(versions(), schema.GroupVersion{Group: g.Name, Version: v.Version})
		})
		if len(g.Versions) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// backendGroup is one of them, or none.
func (s *server) backendGroup(name string) []discoveryv2.APIGroupDiscovery {
	return slices.DeleteFunc(s.backends(), func(g discoveryv2.APIGroupDiscovery) bool { return g.Name != name })
}

// merged is the list of groups with those of backends: a group of which Berth
// serves a version comes first with its own.
func merged(own, others []discoveryv2.APIGroupDiscovery) []discoveryv2.APIGroupDiscovery {
	for _, g := range others {
		if i := slices.IndexFunc(own, func(o discoveryv2.APIGroupDiscovery) bool { return o.Name == g.Name }); i >= 0 {
			own[i].Versions = append(own[i].Versions, g.Versions...)
			continue
		}
		own = append(own, g)
	}
	return own
}

// legacyGroup is a group as clients read it that know no aggregated discovery.
func legacyGroup(g discoveryv2.APIGroupDiscovery) metav1.APIGroup {
	gvs := make([]schema.GroupVersion, len(g.Versions))
	for i, v := range g.Versions {
		gvs[i] = schema.GroupVersion{Group: g.Name, Version: v.Version}
	}
	return apiGroup(gvs)
}

// mergeGroups adds the backends' groups to a legacy list.
func mergeGroups(own []metav1.APIGroup, others []discoveryv2.APIGroupDiscovery) []metav1.APIGroup {
	for _, g := range others {
		group := legacyGroup(g)
		if i := slices.IndexFunc(own, func(o metav1.APIGroup) bool { return o.Name == g.Name }); i >= 0 {
			own[i].Versions = append(own[i].Versions, group.Versions...)
			continue
		}
		own = append(own, group)
	}
	return own
}
