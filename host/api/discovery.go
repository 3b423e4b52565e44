package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/berth-dev/berth/host/api/kind"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// versions lists every group and version once, core first, a group's
// preferred version before its others.
var versions = sync.OnceValue(func() []schema.GroupVersion {
	var all []schema.GroupVersion
	seen := map[schema.GroupVersion]bool{}
	for _, k := range kind.All {
		for _, gv := range k.Served {
			if !seen[gv] {
				seen[gv] = true
				all = append(all, gv)
			}
		}
	}
	return all
})

// groups lists the versions by group, in order; core is not one of them.
func groups() [][]schema.GroupVersion {
	var out [][]schema.GroupVersion
	for _, gv := range versions() {
		if gv.Group == "" {
			continue
		}
		i := slices.IndexFunc(out, func(g []schema.GroupVersion) bool { return g[0].Group == gv.Group })
		if i < 0 {
			out = append(out, []schema.GroupVersion{gv})
			continue
		}
		out[i] = append(out[i], gv)
	}
	return out
}

func kindsIn(gv schema.GroupVersion) []*kind.Kind {
	var in []*kind.Kind
	for _, k := range kind.All {
		if k.Serves(gv) {
			in = append(in, k)
		}
	}
	slices.SortStableFunc(in, func(a, b *kind.Kind) int { return strings.Compare(a.Resource, b.Resource) })
	return in
}

func (s *server) routeDiscovery() {
	s.get("/api", func(k *call) error {
		if k.wantsAggregated() {
			return k.aggregated(nil, schema.GroupVersion{Version: "v1"})
		}
		return k.any(http.StatusOK, &metav1.APIVersions{
			Versions:                   []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: k.r.Host}},
		}, schema.GroupVersionKind{Kind: "APIVersions", Version: ""})
	})
	s.get("/apis", func(k *call) error {
		if k.wantsAggregated() {
			return k.aggregated(s.backends(), slices.Concat(groups()...)...)
		}
		list := &metav1.APIGroupList{}
		for _, g := range groups() {
			list.Groups = append(list.Groups, apiGroup(g))
		}
		list.Groups = mergeGroups(list.Groups, s.backends())
		return k.any(http.StatusOK, list, schema.GroupVersionKind{Version: "v1", Kind: "APIGroupList"})
	})
	for _, g := range groups() {
		s.get("/apis/"+g[0].Group, func(k *call) error {
			group := mergeGroups([]metav1.APIGroup{apiGroup(g)}, s.backendGroup(g[0].Group))[0]
			return k.any(http.StatusOK, &group, schema.GroupVersionKind{Version: "v1", Kind: "APIGroup"})
		})
	}
	s.get("/apis/:group", func(k *call) error {
		group := s.backendGroup(k.param("group"))
		if len(group) == 0 {
			return pathNotFound()
		}
		legacy := legacyGroup(group[0])
		return k.any(http.StatusOK, &legacy, schema.GroupVersionKind{Version: "v1", Kind: "APIGroup"})
	})
	for _, gv := range versions() {
		s.get(root(gv), func(k *call) error {
			return k.any(http.StatusOK, resourceList(gv), schema.GroupVersionKind{Version: "v1", Kind: "APIResourceList"})
		})
	}
	s.get("/openapi/v2", (*call).openAPIv2)
	s.get("/openapi/v3", (*call).openAPIIndex)
	s.get("/openapi/v3/*", (*call).openAPIv3)
}

func apiGroup(gvs []schema.GroupVersion) metav1.APIGroup {
	g := metav1.APIGroup{Name: gvs[0].Group}
	for _, gv := range gvs {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

func resourceList(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{}}
	for _, k := range kindsIn(gv) {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.Resource, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.Name,
			Verbs: k.AllVerbs(), ShortNames: k.Short, Categories: k.Categories, StorageVersionHash: storageHash(k),
		})
		for i := range k.Subresources {
			sub := &k.Subresources[i]
			r := metav1.APIResource{Name: k.Resource + "/" + sub.Name, Namespaced: k.Namespaced, Kind: k.Name, Verbs: sub.Verbs}
			if b := sub.Body; !b.Empty() {
				r.Kind = b.Kind
				if b.GroupVersion() != gv {
					r.Group, r.Version = b.Group, b.Version
				}
			}
			list.APIResources = append(list.APIResources, r)
		}
	}
	return list
}

// storageHash changes when the version that is stored does.
func storageHash(k *kind.Kind) string {
	if k.Strategy == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(k.GVK().String()))
	return fmt.Sprintf("%.8x", sum)
}

// wantsAggregated tells whether the client knows discovery in one document.
func (k *call) wantsAggregated() bool {
	for _, clause := range strings.Split(k.r.Header.Get("Accept"), ",") {
		if strings.Contains(clause, "g=apidiscovery.k8s.io") && strings.Contains(clause, "as=APIGroupDiscoveryList") && strings.Contains(clause, "v=v2") && !strings.Contains(clause, "v=v2beta1") {
			return true
		}
	}
	return false
}

// aggregated answers with the versions, and behind them with what backends serve.
func (k *call) aggregated(others []discoveryv2.APIGroupDiscovery, gvs ...schema.GroupVersion) error {
	list := &discoveryv2.APIGroupDiscoveryList{}
	list.SetGroupVersionKind(discoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList"))
	for _, gv := range gvs {
		n := len(list.Items)
		if n == 0 || list.Items[n-1].Name != gv.Group {
			list.Items = append(list.Items, discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: gv.Group}})
			n++
		}
		g := &list.Items[n-1]
		g.Versions = append(g.Versions, discoverVersion(gv))
	}
	list.Items = merged(list.Items, others)
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	etag := fmt.Sprintf(`"%.16X"`, sha256.Sum256(data))
	k.w.Header().Set("ETag", etag)
	k.w.Header().Set("Vary", "Accept")
	if k.r.Header.Get("If-None-Match") == etag {
		k.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	k.header("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	return k.write(http.StatusOK, append(data, '\n'))
}

func discoverVersion(gv schema.GroupVersion) discoveryv2.APIVersionDiscovery {
	v := discoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}
	for _, k := range kindsIn(gv) {
		gvk := gv.WithKind(k.Name)
		r := discoveryv2.APIResourceDiscovery{
			Resource: k.Resource, SingularResource: k.Singular, Verbs: k.AllVerbs(), ShortNames: k.Short, Categories: k.Categories,
			Scope: discoveryv2.ScopeCluster, ResponseKind: asKind(gvk),
		}
		if k.Namespaced {
			r.Scope = discoveryv2.ScopeNamespace
		}
		for i := range k.Subresources {
			sub := &k.Subresources[i]
			body := gvk
			if !sub.Body.Empty() {
				body = sub.Body
			}
			r.Subresources = append(r.Subresources, discoveryv2.APISubresourceDiscovery{Subresource: sub.Name, ResponseKind: asKind(body), Verbs: sub.Verbs})
		}
		v.Resources = append(v.Resources, r)
	}
	return v
}

func asKind(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}
