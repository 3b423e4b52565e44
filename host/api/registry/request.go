package registry

import (
	"context"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
)

// Request says what an operation is about and who asks.
type Request struct {
	Kind *kind.Kind
	// Version is the one that the client speaks; zero means the stored one.
	Version schema.GroupVersion
	// Namespace is empty for cluster-scoped kinds, and for lists of all.
	Namespace   string
	Name        string
	Subresource string
	User        user.Info
	DryRun      bool
	// Manager is the field manager that the client named, if it named one;
	// Agent stands in for it where fields are tracked anyway.
	Manager, Agent string
	// FieldValidation is Strict, Warn (the default) or Ignore.
	FieldValidation string
	// Warn gets what the client should know; nil drops it.
	Warn func(text string)
	// Annotate gets what the audit log should say beside; nil drops it.
	Annotate func(key, value string)

	// MayCreate tells whether the user may create what an update or an apply does
	// not find; nil is the host itself, which may.
	MayCreate func() error

	// applied: the fields' managers are settled already
	applied bool
}

// Host is who writes in the name of the host itself.
var Host user.Info = &user.DefaultInfo{Name: "system:berth", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// On makes a request of the host itself, for controllers, the scheduler and
// tests. The resource is the name in the store: "pods", "deployments.apps".
func On(resource, namespace, name string) *Request {
	return &Request{Kind: kind.MustStored(resource), Namespace: namespace, Name: name, User: Host, Agent: "berth"}
}

// Sub is the same request about a subresource.
func (r *Request) Sub(name string) *Request {
	sub := *r
	sub.Subresource = name
	return &sub
}

func (r *Request) version() schema.GroupVersion {
	if r.Version.Empty() {
		return r.Kind.Stored()
	}
	return r.Version
}

func (r *Request) key() store.Key { return r.Kind.Key(r.Namespace, r.Name) }

// named is the same request about another object of the kind.
func (r *Request) named(namespace, name string) *Request {
	one := *r
	one.Namespace, one.Name = namespace, name
	return &one
}

// AddWarning implements warning.Recorder.
func (r *Request) AddWarning(_, text string) {
	if r.Warn != nil {
		r.Warn(text)
	}
}

// context carries what Kubernetes' strategies look for.
func (r *Request) context(ctx context.Context) context.Context {
	gv := r.version()
	ctx = apirequest.WithNamespace(ctx, r.Namespace)
	ctx = apirequest.WithRequestInfo(ctx, &apirequest.RequestInfo{
		IsResourceRequest: true, APIGroup: gv.Group, APIVersion: gv.Version, Namespace: r.Namespace,
		Resource: r.Kind.Resource, Subresource: r.Subresource, Name: r.Name,
	})
	if r.User != nil {
		ctx = apirequest.WithUser(ctx, r.User)
	}
	return warning.WithWarningRecorder(ctx, r)
}

func (r *Request) attributes(op Operation, obj, old store.Object) *Attributes {
	a := &Attributes{
		Operation: op, Resource: r.Kind.GroupResource(), Subresource: r.Subresource,
		Kind: r.Kind.GVK(), Namespace: r.Namespace, Name: r.Name,
		User: r.User, DryRun: r.DryRun, Object: obj, Old: old, annotate: r.Annotate,
	}
	if a.User == nil {
		a.User = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	}
	return a
}
