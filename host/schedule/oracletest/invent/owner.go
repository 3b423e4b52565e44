package invent

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// owners are services and controllers, by which pods are spread by default.
func (i *inventor) owners() {
	for _, space := range spaces {
		if i.has("owner") {
			s := v1.Service{ObjectMeta: i.meta(space, "web"), Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
			if i.chance(0.2) {
				s.Spec.Selector = one(i, nil, map[string]string{}, map[string]string{"app": "web", "ver": "1"})
			}
			i.c.Services = append(i.c.Services, s)
		}
		if i.has("owner") {
			i.c.ReplicationControllers = append(i.c.ReplicationControllers, v1.ReplicationController{
				ObjectMeta: i.meta(space, "job"), Spec: v1.ReplicationControllerSpec{Selector: map[string]string{"app": "job"}},
			})
		}
		selector := i.selector()
		if selector == nil {
			selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
		}
		if i.has("owner") {
			i.c.ReplicaSets = append(i.c.ReplicaSets, appsv1.ReplicaSet{ObjectMeta: i.meta(space, "rs"), Spec: appsv1.ReplicaSetSpec{Selector: selector}})
		}
		if i.has("owner") {
			i.c.StatefulSets = append(i.c.StatefulSets, appsv1.StatefulSet{ObjectMeta: i.meta(space, "set"), Spec: appsv1.StatefulSetSpec{Selector: selector}})
		}
	}
}

func (i *inventor) meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name)}
}

// own makes the pod one of a controller, which may be gone.
func (i *inventor) own(p *v1.Pod) {
	if !i.has("owner") {
		return
	}
	r := one(i,
		metav1.OwnerReference{APIVersion: "v1", Kind: "ReplicationController", Name: "job"},
		metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs"},
		metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "set"},
		metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "rs"})
	r.UID, r.Controller = types.UID(p.Namespace+"-"+r.Name), ptr.To(i.chance(0.9))
	p.OwnerReferences = []metav1.OwnerReference{r}
}
