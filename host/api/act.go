package api

import (
	"fmt"
	"net/http"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/wire"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// act answers POSTs to subresources that do something: binding, eviction and
// token.
func (k *call) act() error {
	r, err := k.request()
	if err != nil {
		return err
	}
	ctx, cancel := k.context()
	defer cancel()
	sub, _ := k.place.kind.Sub(k.place.sub)
	switch sub.Name {
	case "binding":
		return k.bind(r, sub.Body)
	case "eviction":
		e := &policyv1.Eviction{}
		if err := k.decode(e, sub.Body, r.FieldValidation); err != nil {
			return err
		}
		if err := k.server.Registry.Evict(ctx, r, e); err != nil {
			return err
		}
	case "token":
		req := &authenticationv1.TokenRequest{}
		if err := k.decode(req, sub.Body, r.FieldValidation); err != nil {
			return err
		}
		issued, err := k.server.Registry.IssueToken(ctx, r, req)
		if err != nil {
			return err
		}
		return k.any(http.StatusCreated, issued, sub.Body)
	default:
		return apierrors.NewMethodNotSupported(k.place.kind.GroupResource(), sub.Name)
	}
	k.status(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	return nil
}

// bindings answers the older way to bind, where the body names the pod.
func (k *call) bindings() error {
	r, err := k.request()
	if err != nil {
		return err
	}
	r.Kind = kind.MustStored("pods")
	return k.bind(r, k.place.version.WithKind("Binding"))
}

func (k *call) bind(r *registry.Request, want schema.GroupVersionKind) error {
	b := &corev1.Binding{}
	if err := k.decode(b, want, r.FieldValidation); err != nil {
		return err
	}
	ctx, cancel := k.context()
	defer cancel()
	if err := k.server.Registry.BindPod(ctx, r, b); err != nil {
		return err
	}
	k.status(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	return nil
}

// any answers with an object that isn't of the route's kind.
func (k *call) any(code int, obj runtime.Object, gvk schema.GroupVersionKind) error {
	f, err := wire.Negotiate(k.r.Header.Get("Accept"), wire.Offer{Protobuf: true})
	if err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	data, err := wire.Any(f, obj)
	if err != nil {
		return err
	}
	k.header(f.ContentType())
	return k.write(code, data)
}

func (k *call) getScale() error {
	r, err := k.request()
	if err != nil {
		return err
	}
	scale, err := k.server.Registry.GetScale(k.r.Context(), r)
	if err != nil {
		return err
	}
	return k.any(http.StatusOK, scale, scaleGVK)
}

var scaleGVK = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

func (k *call) updateScale() error {
	r, err := k.request()
	if err != nil {
		return err
	}
	sent := &autoscalingv1.Scale{}
	if err := k.decode(sent, scaleGVK, r.FieldValidation); err != nil {
		return err
	}
	if sent.Name != "" && sent.Name != r.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", sent.Name, r.Name))
	}
	ctx, cancel := k.context()
	defer cancel()
	scale, err := k.server.Registry.Scale(ctx, r, func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) { return sent, nil })
	if err != nil {
		return err
	}
	return k.any(http.StatusOK, scale, scaleGVK)
}

func (k *call) patchScale() error {
	r, err := k.request()
	if err != nil {
		return err
	}
	p, err := k.readPatch()
	if err != nil {
		return err
	}
	ctx, cancel := k.context()
	defer cancel()
	scale, err := k.server.Registry.PatchScale(ctx, r, p)
	if err != nil {
		return err
	}
	return k.any(http.StatusOK, scale, scaleGVK)
}

// review answers what is asked and never stored.
func (k *call) review() error {
	if k.server.Reviewer == nil {
		return pathNotFound()
	}
	r, err := k.request()
	if err != nil {
		return err
	}
	gvk := k.place.version.WithKind(k.place.kind.Name)
	obj, err := kind.Scheme.New(gvk)
	if err != nil {
		return err
	}
	if err := k.decode(obj, gvk, r.FieldValidation); err != nil {
		return err
	}
	ctx, cancel := k.context()
	defer cancel()
	answer, err := k.server.Reviewer.Review(ctx, k.user, r.Namespace, obj)
	if err != nil {
		return err
	}
	return k.any(http.StatusCreated, answer, gvk)
}
