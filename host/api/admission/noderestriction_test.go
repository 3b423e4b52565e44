package admission

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"
)

// write is one admission, as the machine n1 asks for it.
type write struct {
	op       registry.Operation
	resource string
	sub      string
	ns, name string
	obj, old store.Object
	body     runtime.Object
}

func TestAMachineWritesItsOwnOnly(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	chain := New(Config{Objects: view.Of(c.store), Access: c.auth.Access, Defaults: c.auth.Defaults})
	own := c.create(t, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}).(*corev1.Node)
	mine := c.create(t, "pods", "dev", podOn("n1")).(*corev1.Pod)
	theirs := c.create(t, "pods", "dev", podOn("n2")).(*corev1.Pod)
	bare := podOn("n1")
	bare.Spec.AutomountServiceAccountToken = ptr.To(false)
	bare = c.create(t, "pods", "dev", bare).(*corev1.Pod)
	vaulted := podOn("n1")
	vaulted.Spec.AutomountServiceAccountToken = ptr.To(false)
	vaulted.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "a"}},
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "bank", Path: "b"}},
	}}}}}
	vaulted = c.create(t, "pods", "dev", vaulted).(*corev1.Pod)

	mirror := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "m", Namespace: "dev", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: own.UID, Controller: ptr.To(true)}},
		}, Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}}}
		if change != nil {
			change(p)
		}
		return p
	}
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := own.DeepCopy()
		if change != nil {
			change(n)
		}
		return n
	}
	status := func(p *corev1.Pod, change func(*corev1.Pod)) write {
		next := p.DeepCopy()
		change(next)
		return write{op: registry.Update, resource: "pods", sub: "status", ns: "dev", name: p.Name, obj: next, old: p}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "c"}}
	claimWith := func(change func(*corev1.PersistentVolumeClaim), sub string) write {
		next := claim.DeepCopy()
		change(next)
		return write{op: registry.Update, resource: "persistentvolumeclaims", sub: sub, ns: "dev", name: "c", obj: next, old: claim}
	}
	token := func(change func(*authenticationv1.TokenRequest)) write {
		req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: mine.Name, UID: mine.UID}}}
		change(req)
		return write{op: registry.Create, resource: "serviceaccounts", sub: "token", ns: "dev", name: "default", body: req}
	}
	nothing := func(*authenticationv1.TokenRequest) {}
	tokenOf := func(p *corev1.Pod, audiences ...string) write {
		return token(func(r *authenticationv1.TokenRequest) {
			r.Spec.BoundObjectRef.Name, r.Spec.BoundObjectRef.UID, r.Spec.Audiences = p.Name, p.UID, audiences
		})
	}
	create := func(p *corev1.Pod) write {
		return write{op: registry.Create, resource: "pods", ns: "dev", name: p.Name, obj: p}
	}
	nodeWrite := func(op registry.Operation, name string, obj *corev1.Node) write {
		w := write{op: op, resource: "nodes", name: name, obj: obj}
		if op == registry.Update {
			w.old = own
		}
		return w
	}

	tests := map[string]struct {
		write
		want string // "" is allowed
	}{
		"a mirror pod":                    {create(mirror(nil)), ""},
		"a pod that is no mirror":         {create(mirror(func(p *corev1.Pod) { p.Annotations, p.Spec.ServiceAccountName = nil, "default" })), "can only create mirror pods"},
		"a mirror pod elsewhere":          {create(mirror(func(p *corev1.Pod) { p.Spec.NodeName = "n2" })), "spec.nodeName set to itself"},
		"a mirror pod of nobody":          {create(mirror(func(p *corev1.Pod) { p.OwnerReferences = nil })), "single owner reference"},
		"a mirror pod of another node":    {create(mirror(func(p *corev1.Pod) { p.OwnerReferences[0].Name = "n2" })), "controller owner reference"},
		"a mirror pod of a previous node": {create(mirror(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "old" })), "UID mismatch"},
		"a mirror pod that blocks":        {create(mirror(func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = ptr.To(true) })), "blockOwnerDeletion"},
		"a mirror pod that mounts a config": {create(mirror(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}}}}
		})), "reference configmaps"},
		"a mirror pod that mounts a claim": {create(mirror(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}}}
		})), "reference persistentvolumeclaims"},
		"deleting its pod":            {write{op: registry.Delete, resource: "pods", ns: "dev", name: mine.Name, old: mine}, ""},
		"deleting another's pod":      {write{op: registry.Delete, resource: "pods", ns: "dev", name: theirs.Name, old: theirs}, "can only delete pods"},
		"evicting its pod":            {write{op: registry.Create, resource: "pods", sub: "eviction", ns: "dev", name: mine.Name}, ""},
		"evicting another's pod":      {write{op: registry.Create, resource: "pods", sub: "eviction", ns: "dev", name: theirs.Name}, "can only delete pods"},
		"its pod's status":            {status(mine, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), ""},
		"another's pod's status":      {status(theirs, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), "can only update pod status"},
		"labels by way of the status": {status(mine, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }), "cannot update labels"},
		"its pod itself":              {write{op: registry.Update, resource: "pods", ns: "dev", name: mine.Name, obj: mine, old: mine}, "unexpected operation"},
		"binding its pod":             {write{op: registry.Create, resource: "pods", sub: "binding", ns: "dev", name: mine.Name}, "unexpected operation"},
		"its node":                    {nodeWrite(registry.Update, "n1", node(func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} })), ""},
		"another's node":              {nodeWrite(registry.Update, "n2", node(nil)), "not allowed to modify node"},
		"labels that are its own affair": {nodeWrite(registry.Update, "n1", node(func(n *corev1.Node) {
			n.Labels = map[string]string{"kubernetes.io/arch": "amd64", "example.com/disk": "ssd"}
		})), ""},
		"a label of the restricted kind":    {nodeWrite(registry.Update, "n1", node(func(n *corev1.Node) { n.Labels = map[string]string{"x.node-restriction.kubernetes.io/a": "b"} })), "not allowed to modify labels"},
		"a role's label":                    {nodeWrite(registry.Create, "n1", node(func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} })), "not allowed to modify labels"},
		"its owners":                        {nodeWrite(registry.Update, "n1", node(func(n *corev1.Node) { n.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} })), "ownerReferences"},
		"its config source":                 {nodeWrite(registry.Update, "n1", node(func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} })), "configSource"},
		"its taints":                        {nodeWrite(registry.Update, "n1", node(func(n *corev1.Node) { n.Spec.Taints = nil })), "not allowed to modify taints"},
		"a claim's capacity":                {claimWith(func(p *corev1.PersistentVolumeClaim) { p.Status.Capacity = resources("storage", "1Gi") }, "status"), ""},
		"a claim's phase":                   {claimWith(func(p *corev1.PersistentVolumeClaim) { p.Status.Phase = corev1.ClaimBound }, "status"), "not allowed to update fields"},
		"a claim itself":                    {claimWith(func(p *corev1.PersistentVolumeClaim) {}, ""), "may only update PVC status"},
		"a token for its pod":               {token(nothing), ""},
		"a token for nothing":               {token(func(r *authenticationv1.TokenRequest) { r.Spec.BoundObjectRef = nil }), "not bound to a pod"},
		"a token for another's pod":         {tokenOf(theirs), "different node"},
		"a token for a previous pod":        {token(func(r *authenticationv1.TokenRequest) { r.Spec.BoundObjectRef.UID = "old" }), "does not match the UID"},
		"a token for an audience of nobody": {tokenOf(mine, "vault"), `audience "vault" not found`},
		"a token for a pod without one":     {tokenOf(bare), `audience "" not found`},
		"the API's for a pod of another":    {tokenOf(vaulted), `audience "" not found`},
		"a token for an audience of a pod":  {tokenOf(vaulted, "vault"), ""},
		"a token for two of its audiences":  {tokenOf(vaulted, "vault", "bank"), "may only request 0 or 1 audiences"},
		"its lease":                         {write{op: registry.Create, resource: "leases.coordination.k8s.io", ns: "kube-node-lease", name: "n1", obj: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}, ""},
		"another's lease":                   {write{op: registry.Create, resource: "leases.coordination.k8s.io", ns: "kube-node-lease", obj: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}, "same name"},
		"a lease elsewhere":                 {write{op: registry.Create, resource: "leases.coordination.k8s.io", ns: "kube-system", obj: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}, "kube-node-lease"},
		"another's CSINode":                 {write{op: registry.Create, resource: "csinodes.storage.k8s.io", obj: &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}, "same name"},
	}
	machine := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup, user.AllAuthenticated}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &registry.Attributes{
				Operation: test.op, Resource: schema.ParseGroupResource(test.resource), Subresource: test.sub, Namespace: test.ns, Name: test.name,
				User: machine, Object: test.obj, Old: test.old, Body: test.body,
			}
			err := chain.Validate(t.Context(), a)
			if test.want == "" {
				if err != nil {
					t.Errorf("Validate = %v, want it allowed", err)
				}
				return
			}
			refused(t, err, test.want)
		})
	}
}

func podOn(node string) *corev1.Pod {
	pod := plainPod()
	pod.Spec.NodeName = node
	return pod
}

// TestANodeThatWasSilentRegistersAgain: the node controller's taints carry the
// time at which they were put on, and a patch carries whole seconds only.
func TestANodeThatWasSilentRegistersAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	added := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC))
	gone := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	c.create(t, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{gone}}})
	patch := func(sub, body string) error {
		r := registry.On("nodes", "", "n1").Sub(sub)
		r.User = &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}
		_, _, err := c.Patch(t.Context(), r, registry.Patch{Type: types.MergePatchType, Data: []byte(body)})
		return err
	}
	for what, err := range map[string]error{
		"labels": patch("", `{"metadata":{"labels":{"kubernetes.io/arch":"amd64"}}}`),
		"status": patch("status", `{"status":{"phase":"Running"}}`),
	} {
		if err != nil {
			t.Errorf("patch the %s: %v", what, err)
		}
	}
	for what, taints := range map[string]string{
		"take its taint off":            `null`,
		"put on another":                `[{"key":"mine","effect":"NoSchedule"}]`,
		"say that it was tainted later": `[{"key":"node.kubernetes.io/unreachable","effect":"NoExecute","timeAdded":"2027-01-01T00:00:00Z"}]`,
	} {
		t.Run(what, func(t *testing.T) {
			refused(t, patch("", `{"spec":{"taints":`+taints+`}}`), `node "n1" is not allowed to modify taints`)
		})
	}
}
