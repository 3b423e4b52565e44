package volumes

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// allows says whether a class may make volumes for a node: it names no
// topology, or the node's labels meet all requirements of one of its terms.
func allows(terms []v1.TopologySelectorTerm, labels map[string]string) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(term v1.TopologySelectorTerm) bool {
		if len(term.MatchLabelExpressions) == 0 {
			return false
		}
		return !slices.ContainsFunc(term.MatchLabelExpressions, func(r v1.TopologySelectorLabelRequirement) bool {
			value, ok := labels[r.Key]
			return !ok || !slices.Contains(r.Values, value)
		})
	})
}
