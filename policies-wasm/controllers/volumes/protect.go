package volumes

import (
	"strconv"

	"github.com/berth-dev/berth/sdk/reconcile"
)

// Finalizers that keep what is in use.
const (
	claimProtection  = "kubernetes.io/pvc-protection"
	volumeProtection = "kubernetes.io/pv-protection"
)

// letGo lets a deleted claim go that no pod uses. A pod that is on no node uses
// nothing, and is not brought to one while the claim is being deleted.
func letGo(r *reconcile.Request, out *reconcile.Result) {
	var users []string
	for _, pod := range r.RelatedOf("Pod") {
		if node, _ := pod.Field("spec.nodeName").Text(); node != "" {
			users = append(users, pod.Name)
		}
	}
	switch {
	case len(users) == 0:
		out.RemoveFinalizer(&r.Parent, claimProtection)
	case len(users) == 1:
		out.Why = []string{"pod " + users[0] + " uses it"}
	default:
		out.Why = []string{"pod " + users[0] + " and " + strconv.Itoa(len(users)-1) + " more use it"}
	}
}
