package admission

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/authz"
	"github.com/berth-dev/berth/host/auth/view"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	kubeletapis "k8s.io/kubelet/pkg/apis"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// nodeRestriction completes the authorizer's rules for machines by what only
// the objects show.
type nodeRestriction struct{ objects view.Objects }

func (n nodeRestriction) pod(ctx context.Context, a *registry.Attributes) error {
	node, ok := authz.NodeOf(a.User)
	if !ok {
		return nil
	}
	switch {
	case whole(a, registry.Create):
		return n.mirrorPod(ctx, a, node)
	case whole(a, registry.Delete), a.Subresource == "eviction":
		if pod, err := n.boundPod(ctx, a); err != nil || pod.Spec.NodeName == node {
			return err
		}
		return forbid(a, "node %q can only delete pods with spec.nodeName set to itself", node)
	case a.Subresource == "status" && a.Operation == registry.Update:
		return podStatus(a, node)
	}
	return forbid(a, "unexpected operation %q, node %q can only create and delete mirror pods", a.Operation, node)
}

// boundPod is the stored pod, which the registry hands over where it has it.
func (n nodeRestriction) boundPod(ctx context.Context, a *registry.Attributes) (*corev1.Pod, error) {
	if pod, ok := a.Old.(*corev1.Pod); ok {
		return pod, nil
	}
	pod, err := view.Get[*corev1.Pod](ctx, n.objects, view.Pods, a.Namespace, a.Name)
	if err != nil {
		return nil, forbid(a, "%w", err)
	}
	return pod, nil
}

func podStatus(a *registry.Attributes, node string) error {
	old, hadOld := a.Old.(*corev1.Pod)
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || !hadOld {
		return forbid(a, "unexpected type %T", a.Object)
	}
	if old.Spec.NodeName != node {
		return forbid(a, "node %q can only update pod status for pods with spec.nodeName set to itself", node)
	}
	if !maps.Equal(old.Labels, pod.Labels) {
		return forbid(a, "node %q cannot update labels through pod status", node)
	}
	if !apiequality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses) {
		return forbid(a, "node %q cannot update resource claim statues", node)
	}
	return nil
}

// mirrorPod is the one kind of pod that a machine may create: a picture of what
// runs there without the API, which refers to nothing.
func (n nodeRestriction) mirrorPod(ctx context.Context, a *registry.Attributes, node string) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return forbid(a, "unexpected type %T", a.Object)
	}
	if !isMirror(pod) {
		return forbid(a, "pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node)
	}
	if pod.Spec.NodeName != node {
		return forbid(a, "node %q can only create pods with spec.nodeName set to itself", node)
	}
	if len(pod.OwnerReferences) != 1 {
		return forbid(a, "node %q can only create pods with a single owner reference set to itself", node)
	}
	owner := pod.OwnerReferences[0]
	if owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != node || owner.Controller == nil || !*owner.Controller {
		return forbid(a, "node %q can only create pods with a controller owner reference set to itself", node)
	}
	if owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
		return forbid(a, "node %q must not set blockOwnerDeletion on an owner reference", node)
	}
	own, err := view.Get[*corev1.Node](ctx, n.objects, view.Nodes, "", node)
	if err != nil {
		return forbid(a, "error looking up node %s to verify uid: %w", node, err)
	}
	if own.UID != owner.UID {
		return forbid(a, "node %s UID mismatch: expected %s got %s", node, owner.UID, own.UID)
	}
	if what := refersTo(pod); what != "" {
		return forbid(a, "node %q can not create pods that reference %s", node, what)
	}
	return nil
}

// refersTo names a kind of object that the pod refers to, if it does.
func refersTo(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName != "" {
		return "serviceaccounts"
	}
	found := ""
	note := func(kind string) podutil.Visitor {
		return func(string) bool {
			found = kind
			return false
		}
	}
	podutil.VisitPodSecretNames(pod, note("secrets"))
	podutil.VisitPodConfigmapNames(pod, note("configmaps"))
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			found = "persistentvolumeclaims"
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil || source.ClusterTrustBundle != nil {
				found = "projected tokens and trust bundles"
			}
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		found = "resourceclaims"
	}
	return found
}

func (n nodeRestriction) node(_ context.Context, a *registry.Attributes) error {
	node, ok := authz.NodeOf(a.User)
	if !ok {
		return nil
	}
	if a.Name != node {
		return forbid(a, "node %q is not allowed to modify node %q", node, a.Name)
	}
	obj, ok := a.Object.(*corev1.Node)
	if !ok {
		return nil
	}
	old, _ := a.Old.(*corev1.Node)
	if old == nil {
		old = &corev1.Node{}
	}
	if obj.Spec.ConfigSource != nil && !apiequality.Semantic.DeepEqual(obj.Spec.ConfigSource, old.Spec.ConfigSource) {
		return forbid(a, "node %q is not allowed to update configSource to a new non-nil configSource", node)
	}
	if a.Operation == registry.Update && !slices.EqualFunc(obj.Spec.Taints, old.Spec.Taints, sameTaint) {
		return forbid(a, "node %q is not allowed to modify taints", node)
	}
	if a.Operation == registry.Update && !apiequality.Semantic.DeepEqual(obj.OwnerReferences, old.OwnerReferences) {
		return forbid(a, "node %q is not allowed to modify ownerReferences", node)
	}
	if labels := forbiddenLabels(obj.Labels, old.Labels); len(labels) > 0 {
		return forbid(a, "node %q is not allowed to modify labels: %s", node, strings.Join(labels, ", "))
	}
	return nil
}

// sameTaint compares times as clients can send them: in whole seconds.
func sameTaint(a, b corev1.Taint) bool {
	if a.Key != b.Key || a.Value != b.Value || a.Effect != b.Effect || (a.TimeAdded == nil) != (b.TimeAdded == nil) {
		return false
	}
	return a.TimeAdded == nil || a.TimeAdded.Unix() == b.TimeAdded.Unix()
}

// forbiddenLabels are those that changed and by which a machine could draw pods
// to itself that are not meant for it.
func forbiddenLabels(labels, old map[string]string) []string {
	var found []string
	check := func(key string) {
		domain, _, _ := strings.Cut(key, "/")
		if domain == key {
			return
		}
		restricted := within(domain, corev1.LabelNamespaceNodeRestriction)
		ofKubernetes := within(domain, "kubernetes.io") || within(domain, "k8s.io")
		if restricted || ofKubernetes && !kubeletapis.IsKubeletLabel(key) {
			found = append(found, key)
		}
	}
	for key, value := range labels {
		if was, ok := old[key]; !ok || was != value {
			check(key)
		}
	}
	for key := range old {
		if _, ok := labels[key]; !ok {
			check(key)
		}
	}
	slices.Sort(found)
	return found
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// token: a machine gets tokens for pods that are bound to it, for an audience
// that the pod asks for.
func (n nodeRestriction) token(ctx context.Context, a *registry.Attributes) error {
	node, ok := authz.NodeOf(a.User)
	if !ok || a.Subresource != "token" {
		return nil
	}
	req, ok := a.Body.(*authenticationv1.TokenRequest)
	if !ok {
		return forbid(a, "unexpected type %T", a.Body)
	}
	ref := req.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return forbid(a, "node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return forbid(a, "node requested token with a pod binding without a uid")
	}
	pod, err := view.Get[*corev1.Pod](ctx, n.objects, view.Pods, a.Namespace, ref.Name)
	if err != nil {
		return forbid(a, "%w", err)
	}
	if pod.UID != ref.UID {
		return forbid(a, "the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	}
	if pod.Spec.NodeName != node {
		return forbid(a, "node requested token bound to a pod scheduled on a different node")
	}
	return audience(a, req, pod)
}

// audience lets a machine ask for one that its pod mounts. Who names none gets a
// token for the API, and so does a projection without one.
func audience(a *registry.Attributes, req *authenticationv1.TokenRequest, pod *corev1.Pod) error {
	asked := ""
	switch len(req.Spec.Audiences) {
	case 0:
	case 1:
		asked = req.Spec.Audiences[0]
	default:
		return forbid(a, "node may only request 0 or 1 audiences")
	}
	if !asksFor(pod, asked) {
		return forbid(a, "audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", asked, a.User.GetName())
	}
	return nil
}

func asksFor(pod *corev1.Pod, audience string) bool {
	for i := range pod.Spec.Volumes {
		projected := pod.Spec.Volumes[i].Projected
		if projected == nil {
			continue
		}
		for _, source := range projected.Sources {
			if source.ServiceAccountToken != nil && source.ServiceAccountToken.Audience == audience {
				return true
			}
		}
	}
	return false
}

func (n nodeRestriction) claim(_ context.Context, a *registry.Attributes) error {
	node, ok := authz.NodeOf(a.User)
	if !ok {
		return nil
	}
	obj, isClaim := a.Object.(*corev1.PersistentVolumeClaim)
	old, hadOld := a.Old.(*corev1.PersistentVolumeClaim)
	if a.Subresource != "status" || !isClaim || !hadOld {
		return forbid(a, "may only update PVC status")
	}
	was, is := stripClaim(old), stripClaim(obj)
	if !apiequality.Semantic.DeepEqual(was, is) {
		return forbid(a, "node %q is not allowed to update fields other than status.capacity and status.conditions", node)
	}
	return nil
}

// stripClaim leaves what a machine may not change.
func stripClaim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c := claim.DeepCopy()
	c.ResourceVersion, c.ManagedFields = "", nil
	c.Status.Capacity, c.Status.Conditions = nil, nil
	c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil
	return c
}

func (n nodeRestriction) lease(_ context.Context, a *registry.Attributes) error {
	node, ok := authz.NodeOf(a.User)
	if !ok {
		return nil
	}
	if a.Namespace != corev1.NamespaceNodeLease {
		return forbid(a, "can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	}
	return ownName(a, node, "node lease")
}

func (n nodeRestriction) csiNode(_ context.Context, a *registry.Attributes) error {
	node, ok := authz.NodeOf(a.User)
	if !ok {
		return nil
	}
	return ownName(a, node, "CSINode")
}

func ownName(a *registry.Attributes, node, what string) error {
	name := a.Name
	if a.Object != nil {
		name = a.Object.GetName()
	}
	if name != node {
		return forbid(a, "can only access %s with the same name as the requesting node", what)
	}
	return nil
}
