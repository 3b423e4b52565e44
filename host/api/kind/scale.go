package kind

import (
	"github.com/berth-dev/berth/host/store"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// Scale reads and writes the number of replicas of a kind.
type Scale struct {
	// replicas points at the field that scaling sets.
	replicas func(obj store.Object) **int32
	// observed gives the count in the status, and the pods that count.
	observed func(obj store.Object) (int32, string)
}

// Get is the object as its scale subresource shows it.
func (s *Scale) Get(obj store.Object) *autoscalingv1.Scale {
	count, selector := s.observed(obj)
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: scaleBody.GroupVersion().String(), Kind: scaleBody.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: ptr.Deref(*s.replicas(obj), 1)},
		Status: autoscalingv1.ScaleStatus{Replicas: count, Selector: selector},
	}
}

// Set writes the wanted number into obj, which must be a copy of one's own.
func (s *Scale) Set(obj store.Object, replicas int32) { *s.replicas(obj) = &replicas }

func selectorText(sel *metav1.LabelSelector) string {
	parsed, err := metav1.LabelSelectorAsSelector(sel)
	if err != nil {
		return ""
	}
	return parsed.String()
}

var deploymentScale = &Scale{
	replicas: func(o store.Object) **int32 { return &o.(*appsv1.Deployment).Spec.Replicas },
	observed: func(o store.Object) (int32, string) {
		d := o.(*appsv1.Deployment)
		return d.Status.Replicas, selectorText(d.Spec.Selector)
	},
}

var replicaSetScale = &Scale{
	replicas: func(o store.Object) **int32 { return &o.(*appsv1.ReplicaSet).Spec.Replicas },
	observed: func(o store.Object) (int32, string) {
		rs := o.(*appsv1.ReplicaSet)
		return rs.Status.Replicas, selectorText(rs.Spec.Selector)
	},
}

var statefulSetScale = &Scale{
	replicas: func(o store.Object) **int32 { return &o.(*appsv1.StatefulSet).Spec.Replicas },
	observed: func(o store.Object) (int32, string) {
		sts := o.(*appsv1.StatefulSet)
		return sts.Status.Replicas, selectorText(sts.Spec.Selector)
	},
}

var rcScale = &Scale{
	replicas: func(o store.Object) **int32 { return &o.(*corev1.ReplicationController).Spec.Replicas },
	observed: func(o store.Object) (int32, string) {
		rc := o.(*corev1.ReplicationController)
		return rc.Status.Replicas, labels.Set(rc.Spec.Selector).AsSelector().String()
	},
}
