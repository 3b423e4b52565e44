package kind

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
)

// rules is a Strategy made of functions, for kinds whose strategy in
// Kubernetes drags the whole generic server along. T is the internal type.
// What is nil does nothing.
type rules[T runtime.Object] struct {
	runtime.ObjectTyper
	names.NameGenerator

	clusterScoped  bool
	createOnUpdate bool
	onCreate       func(ctx context.Context, obj T)
	onUpdate       func(ctx context.Context, obj, old T)
	validate       func(ctx context.Context, obj T) field.ErrorList
	validateUpdate func(ctx context.Context, obj, old T) field.ErrorList
	warnCreate     func(ctx context.Context, obj T) []string
	warnUpdate     func(ctx context.Context, obj, old T) []string
	canonical      func(obj T)
}

func typed[T runtime.Object](r rules[T]) *rules[T] {
	r.ObjectTyper, r.NameGenerator = Scheme, names.SimpleNameGenerator
	return &r
}

func (r *rules[T]) NamespaceScoped() bool          { return !r.clusterScoped }
func (r *rules[T]) AllowCreateOnUpdate() bool      { return r.createOnUpdate }
func (r *rules[T]) AllowUnconditionalUpdate() bool { return true }

func (r *rules[T]) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	if r.onCreate != nil {
		r.onCreate(ctx, obj.(T))
	}
}

func (r *rules[T]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	if r.onUpdate != nil {
		r.onUpdate(ctx, obj.(T), old.(T))
	}
}

func (r *rules[T]) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	if r.validate == nil {
		return nil
	}
	return r.validate(ctx, obj.(T))
}

func (r *rules[T]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if r.validateUpdate == nil {
		return nil
	}
	return r.validateUpdate(ctx, obj.(T), old.(T))
}

func (r *rules[T]) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	if r.warnCreate == nil {
		return nil
	}
	return r.warnCreate(ctx, obj.(T))
}

func (r *rules[T]) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	if r.warnUpdate == nil {
		return nil
	}
	return r.warnUpdate(ctx, obj.(T), old.(T))
}

func (r *rules[T]) Canonicalize(obj runtime.Object) {
	if r.canonical != nil {
		r.canonical(obj.(T))
	}
}
