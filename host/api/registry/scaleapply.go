package registry

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// applyScale is server-side apply to the scale subresource. Who manages the
// replicas of a scale manages those of the object, and the other way round.
func (reg *Registry) applyScale(ctx context.Context, r *Request, p Patch) (*autoscalingv1.Scale, error) {
	want, err := applied(r, p)
	if err != nil {
		return nil, err
	}
	fm, err := reg.managers.ofScale()
	if err != nil {
		return nil, err
	}
	merged := *r
	merged.applied = true
	obj, err := reg.Modify(ctx, &merged, func(old store.Object) (store.Object, error) {
		entries := managedfields.NewScaleHandler(old.GetManagedFields(), r.version(), replicasPaths(r.Kind))
		live := r.Kind.Scale.Get(old)
		if live.ManagedFields, err = entries.ToSubresource(); err != nil {
			return nil, fmt.Errorf("managed fields of %s: %w", r.Name, err)
		}
		out, err := fm.Apply(live, want.DeepCopy(), r.Manager, p.Force)
		if err != nil {
			return nil, applyError(err)
		}
		scale := out.(*autoscalingv1.Scale)
		if scale.Name != r.Name {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", scale.Name, r.Name))
		}
		next, err := scaled(r, old, scale)
		if err != nil {
			return nil, err
		}
		back, err := entries.ToParent(scale.ManagedFields)
		if err != nil {
			return nil, fmt.Errorf("managed fields of %s: %w", r.Name, err)
		}
		next.SetManagedFields(back)
		return next, nil
	})
	if err != nil {
		return nil, err
	}
	return r.Kind.Scale.Get(obj), nil
}

// replicasPaths say where the number is in each version of a kind.
func replicasPaths(k *kind.Kind) managedfields.ResourcePathMappings {
	paths := managedfields.ResourcePathMappings{}
	for _, gv := range k.Served {
		paths[gv.String()] = fieldpath.MakePathOrDie("spec", "replicas")
	}
	return paths
}

// ofScale is the field manager of scales, whatever they are of.
func (m *managers) ofScale() (*managedfields.FieldManager, error) {
	gvk := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	of := managed{version: gvk.GroupVersion(), subresource: "scale"}
	m.mu.Lock()
	defer m.mu.Unlock()
	if fm, ok := m.all[of]; ok {
		return fm, nil
	}
	fm, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), scaleConverter{}, kind.Scheme, kind.Scheme, gvk, gvk.GroupVersion(), "scale", nil)
	if err != nil {
		return nil, fmt.Errorf("track fields of Scale: %w", err)
	}
	m.all[of] = fm
	return fm, nil
}

// scaleConverter gives field managers scales, of which there is one version.
type scaleConverter struct{}

func (scaleConverter) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	out := &autoscalingv1.Scale{}
	switch in := in.(type) {
	case *autoscalingv1.Scale:
		in.DeepCopyInto(out)
	case *unstructured.Unstructured:
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(in.UnstructuredContent(), out); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	default:
		return nil, fmt.Errorf("%T is no scale", in)
	}
	out.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	return out, nil
}

func (scaleConverter) Convert(in, out, context any) error {
	return kind.Scheme.Convert(in, out, context)
}

func (scaleConverter) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return kind.Scheme.ConvertFieldLabel(gvk, label, value)
}
