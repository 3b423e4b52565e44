package aggregate

import (
	"cmp"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// maxDiscovery bounds the bytes in which a backend tells what it serves.
const maxDiscovery = 4 << 20

// found is what one APIService serves, as last read; stale when it could not be
// read again.
type found struct {
	group                   string
	groupPriority, priority int32
	serves                  discoveryv2.APIVersionDiscovery
	described               described
}

// Groups lists what backends serve by priority, from what Run last read: it waits
// for nobody.
func (a *Aggregator) Groups() []discoveryv2.APIGroupDiscovery {
	a.mu.Lock()
	all := make([]found, 0, len(a.found))
	for _, f := range a.found {
		all = append(all, f)
	}
	a.mu.Unlock()
	top := map[string]int32{}
	for _, f := range all {
		top[f.group] = max(top[f.group], f.groupPriority)
	}
	slices.SortFunc(all, func(x, y found) int {
		return cmp.Or(cmp.Compare(top[y.group], top[x.group]), strings.Compare(x.group, y.group), cmp.Compare(y.priority, x.priority),
			version.CompareKubeAwareVersionStrings(y.serves.Version, x.serves.Version))
	})
	var groups []discoveryv2.APIGroupDiscovery
	for _, f := range all {
		if n := len(groups); n == 0 || groups[n-1].Name != f.group {
			groups = append(groups, discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: f.group}})
		}
		last := &groups[len(groups)-1]
		last.Versions = append(last.Versions, f.serves)
	}
	return groups
}

// discovered keeps what an APIService serves, and how that is described. One that
// cannot be read keeps what it served, marked stale, so that clients know the list is
// not whole.
func (a *Aggregator) discovered(s *apiregistrationv1.APIService, list *metav1.APIResourceList, d described) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := found{group: s.Spec.Group, groupPriority: s.Spec.GroupPriorityMinimum, priority: s.Spec.VersionPriority}
	if list != nil {
		f.serves = discoveryv2.APIVersionDiscovery{Resources: resourcesOf(s, list), Freshness: discoveryv2.DiscoveryFreshnessCurrent}
		f.described = d
	} else {
		f.serves = discoveryv2.APIVersionDiscovery{Resources: a.found[s.Name].serves.Resources, Freshness: discoveryv2.DiscoveryFreshnessStale}
		f.described = a.found[s.Name].described
	}
	f.serves.Version = s.Spec.Version
	a.found[s.Name] = f
}

// resourcesOf puts a legacy list into the form of aggregated discovery.
func resourcesOf(s *apiregistrationv1.APIService, list *metav1.APIResourceList) []discoveryv2.APIResourceDiscovery {
	var out []discoveryv2.APIResourceDiscovery
	at := map[string]int{}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		kind := &metav1.GroupVersionKind{Group: cmp.Or(r.Group, s.Spec.Group), Version: cmp.Or(r.Version, s.Spec.Version), Kind: r.Kind}
		name, sub, isSub := strings.Cut(r.Name, "/")
		n, known := at[name]
		if isSub && known {
			out[n].Subresources = append(out[n].Subresources, discoveryv2.APISubresourceDiscovery{Subresource: sub, ResponseKind: kind, Verbs: r.Verbs})
			continue
		}
		// Metrics are called pods/queue_length and stand under no resource of their own.
		at[r.Name] = len(out)
		scope := discoveryv2.ScopeCluster
		if r.Namespaced {
			scope = discoveryv2.ScopeNamespace
		}
		out = append(out, discoveryv2.APIResourceDiscovery{
			Resource: r.Name, SingularResource: r.SingularName, Scope: scope, ResponseKind: kind, Verbs: r.Verbs,
			ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	return out
}
