package registry

import (
	"context"

	"github.com/berth-dev/berth/host/store"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// Connect admits a stream to, or a proxied request for, an object, and gives
// the object. options is the kind that describes the stream, if there is one.
func (reg *Registry) Connect(ctx context.Context, r *Request, options runtime.Object) (store.Object, error) {
	obj, err := reg.Get(ctx, r)
	if err != nil {
		return nil, err
	}
	a := r.attributes(Connect, nil, obj)
	a.Body = options
	return obj, reg.ask(r.context(ctx), r, a)
}

// IssueToken answers serviceaccounts/NAME/token.
func (reg *Registry) IssueToken(ctx context.Context, r *Request, req *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	if reg.tokens == nil {
		return nil, apierrors.NewNotFound(r.Kind.GroupResource(), r.Name+"/token")
	}
	obj, err := reg.Get(ctx, r)
	if err != nil {
		return nil, err
	}
	a := r.attributes(Create, nil, obj)
	a.Body = req
	if err := reg.ask(r.context(ctx), r, a); err != nil {
		return nil, err
	}
	issued, err := reg.tokens.IssueToken(ctx, obj.(*corev1.ServiceAccount), req)
	return issued, r.status(err)
}
