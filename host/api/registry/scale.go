package registry

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/berth-dev/berth/host/store"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// GetScale shows how many replicas an object wants and has.
func (reg *Registry) GetScale(ctx context.Context, r *Request) (*autoscalingv1.Scale, error) {
	obj, err := reg.Get(ctx, r)
	if err != nil {
		return nil, err
	}
	return r.Kind.Scale.Get(obj), nil
}

// Scale sets the number of replicas to what change makes of the scale.
func (reg *Registry) Scale(ctx context.Context, r *Request, change func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error)) (*autoscalingv1.Scale, error) {
	obj, err := reg.Modify(ctx, r, func(old store.Object) (store.Object, error) {
		scale, err := change(r.Kind.Scale.Get(old))
		if err != nil {
			return nil, err
		}
		return scaled(r, old, scale)
	})
	if err != nil {
		return nil, err
	}
	return r.Kind.Scale.Get(obj), nil
}

// scaled is the object with the number of replicas that the scale wants.
func scaled(r *Request, old store.Object, scale *autoscalingv1.Scale) (store.Object, error) {
	if err := checkScale(r, scale, old); err != nil {
		return nil, err
	}
	next := old.DeepCopyObject().(store.Object)
	r.Kind.Scale.Set(next, scale.Spec.Replicas)
	return next, nil
}

func checkScale(r *Request, s *autoscalingv1.Scale, old store.Object) error {
	if s.Spec.Replicas < 0 {
		errs := field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0")}
		return apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), r.Name, errs)
	}
	if rv := s.ResourceVersion; rv != "" && rv != old.GetResourceVersion() {
		return apierrors.NewConflict(r.Kind.GroupResource(), r.Name, errors.New(modified))
	}
	if uid := s.UID; uid != "" && uid != old.GetUID() {
		return apierrors.NewConflict(r.Kind.GroupResource(), r.Name, errors.New("Precondition failed: UID in precondition: "+string(uid)+", UID in object meta: "+string(old.GetUID())))
	}
	return nil
}

// PatchScale scales by a patch of the scale object.
func (reg *Registry) PatchScale(ctx context.Context, r *Request, p Patch) (*autoscalingv1.Scale, error) {
	if p.Type == types.ApplyPatchType {
		return reg.applyScale(ctx, r, p)
	}
	patch, err := readPatch(p, r.FieldValidation)
	if err != nil {
		return nil, err
	}
	return reg.Scale(ctx, r, func(s *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		doc, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		next := &autoscalingv1.Scale{}
		return next, patch.into(doc, next, r.FieldValidation, r.Warn)
	})
}
