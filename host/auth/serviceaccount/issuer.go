package serviceaccount

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"slices"
	"time"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// DefaultIssuer is the issuer's name where none is configured.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Bounds of a token's life.
const (
	minLife     = 10 * time.Minute
	defaultLife = time.Hour
	maxLife     = 365 * 24 * time.Hour
)

// Issuer makes tokens and checks them.
type Issuer struct {
	objects   view.Objects
	signer    *signer
	name      string
	audiences []string
	now       func() time.Time
	verified  *memory
}

// NewIssuer signs with key in the name of issuer, "" for DefaultIssuer. The
// issuer's name is also the audience of the API.
func NewIssuer(objects view.Objects, key *ecdsa.PrivateKey, issuer string, now func() time.Time) (*Issuer, error) {
	if issuer == "" {
		issuer = DefaultIssuer
	}
	s, err := newSigner(key)
	if err != nil {
		return nil, err
	}
	return &Issuer{objects: objects, signer: s, name: issuer, audiences: []string{issuer}, now: now, verified: newMemory(4096)}, nil
}

// Audiences are those of the API itself.
func (i *Issuer) Audiences() []string { return slices.Clone(i.audiences) }

// IssueToken fills the status of req with a token for the account.
//
// # Errors
// Errors of the API: 422 for a request that asks for too little or too much,
// 404 and 409 for an object to bind to that is missing or is another one; 422 and
// 409 for one that names another account.
func (i *Issuer) IssueToken(ctx context.Context, account *corev1.ServiceAccount, req *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	if err := named(req, account); err != nil {
		return nil, err
	}
	life, err := lifeOf(req.Spec.ExpirationSeconds)
	if err != nil {
		return nil, err
	}
	audiences := req.Spec.Audiences
	if len(audiences) == 0 {
		audiences = i.Audiences()
	}
	now := i.now()
	c := &claims{
		Issuer:    i.name,
		Subject:   serviceaccount.MakeUsername(account.Namespace, account.Name),
		Audience:  audiences,
		IssuedAt:  now.Unix(),
		NotBefore: now.Unix(),
		Expiry:    now.Add(life).Unix(),
		ID:        uuid.NewString(),
		Kubernetes: private{
			Namespace: account.Namespace,
			Account:   ref{Name: account.Name, UID: string(account.UID)},
		},
	}
	if err := i.bind(ctx, c, account, req.Spec.BoundObjectRef); err != nil {
		return nil, err
	}
	token, err := i.signer.sign(c)
	if err != nil {
		return nil, err
	}
	out := req.DeepCopy()
	out.Name, out.Namespace, out.UID, out.CreationTimestamp = account.Name, account.Namespace, account.UID, metav1.NewTime(now)
	out.Spec.Audiences = audiences
	seconds := int64(life / time.Second)
	out.Spec.ExpirationSeconds = &seconds
	out.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(time.Unix(c.Expiry, 0))}
	return out, nil
}

// named refuses a request that names another account than it was sent to, as far
// as it names any. The UID is of one that was deleted and made anew.
func named(req *authenticationv1.TokenRequest, account *corev1.ServiceAccount) error {
	gvk := authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")
	wrong := func(what, value, why string) error {
		errs := field.ErrorList{field.Invalid(field.NewPath("metadata", what), value, why)}
		return apierrors.NewInvalid(gvk.GroupKind(), account.Name, errs)
	}
	switch {
	case req.Name != "" && req.Name != account.Name:
		return wrong("name", req.Name, "must match the service account name if specified")
	case req.Namespace != "" && req.Namespace != account.Namespace:
		return wrong("namespace", req.Namespace, "must match the service account namespace if specified")
	case req.UID != "" && req.UID != account.UID:
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, account.Name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", req.UID, account.UID))
	}
	return nil
}

func lifeOf(seconds *int64) (time.Duration, error) {
	if seconds == nil {
		return defaultLife, nil
	}
	if *seconds < int64(minLife/time.Second) {
		return 0, badLife(*seconds, "may not specify a duration less than 10 minutes")
	}
	if *seconds > 1<<32 {
		return 0, badLife(*seconds, "may not specify a duration larger than 2^32 seconds")
	}
	return min(time.Duration(*seconds)*time.Second, maxLife), nil
}

func badLife(seconds int64, why string) error {
	errs := field.ErrorList{field.Invalid(field.NewPath("spec", "expirationSeconds"), seconds, why)}
	return apierrors.NewInvalid(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind(), "", errs)
}

// bind makes the token end with the object, if it asks for one.
func (i *Issuer) bind(ctx context.Context, c *claims, account *corev1.ServiceAccount, to *authenticationv1.BoundObjectReference) error {
	if to == nil {
		return nil
	}
	if to.APIVersion != "v1" {
		return apierrors.NewBadRequest(fmt.Sprintf("spec.boundObjectRef: cannot bind token for serviceaccount %q to object of API version %q", account.Name, to.APIVersion))
	}
	switch to.Kind {
	case "Pod":
		return i.bindPod(ctx, c, account, to)
	case "Secret":
		secret, err := bound[*corev1.Secret](ctx, i.objects, view.Secrets, account.Namespace, to)
		if err != nil {
			return err
		}
		c.Kubernetes.Secret = refOf(secret)
	case "Node":
		node, err := bound[*corev1.Node](ctx, i.objects, view.Nodes, "", to)
		if err != nil {
			return err
		}
		c.Kubernetes.Node = refOf(node)
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("spec.boundObjectRef: cannot bind token to object of type %q", to.Kind))
	}
	return nil
}

func (i *Issuer) bindPod(ctx context.Context, c *claims, account *corev1.ServiceAccount, to *authenticationv1.BoundObjectReference) error {
	pod, err := bound[*corev1.Pod](ctx, i.objects, view.Pods, account.Namespace, to)
	if err != nil {
		return err
	}
	if pod.Spec.ServiceAccountName != account.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name))
	}
	c.Kubernetes.Pod = refOf(pod)
	if pod.Spec.NodeName == "" {
		return nil
	}
	c.Kubernetes.Node = &ref{Name: pod.Spec.NodeName}
	if node, err := view.Get[*corev1.Node](ctx, i.objects, view.Nodes, "", pod.Spec.NodeName); err == nil {
		c.Kubernetes.Node.UID = string(node.UID)
	}
	return nil
}

func bound[T store.Object](ctx context.Context, objects view.Objects, resource, namespace string, to *authenticationv1.BoundObjectReference) (T, error) {
	gr := schema.GroupResource{Resource: resource}
	obj, err := view.Get[T](ctx, objects, resource, namespace, to.Name)
	if view.Missing(err) {
		return obj, apierrors.NewNotFound(gr, to.Name)
	}
	if err != nil {
		return obj, err
	}
	if to.UID != "" && to.UID != obj.GetUID() {
		return obj, apierrors.NewConflict(gr, to.Name, fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", to.UID))
	}
	return obj, nil
}

func refOf(obj store.Object) *ref { return &ref{Name: obj.GetName(), UID: string(obj.GetUID())} }
