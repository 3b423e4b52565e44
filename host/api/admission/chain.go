package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/authz"
	"github.com/berth-dev/berth/host/auth/serviceaccount"
	"github.com/berth-dev/berth/host/auth/view"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Config is what the plugins stand on. All but Now are required.
type Config struct {
	Objects  Objects
	Access   *authz.Authorizer
	Defaults *serviceaccount.Defaults
	// Now is the time; time.Now by default.
	Now func() time.Time
}

// Objects is the store with its history, from which quotas are counted.
type Objects interface {
	view.Store
	follower
}

// step is one plugin's say on one resource; either function may be nil.
type step struct {
	admit    func(context.Context, *registry.Attributes) error
	validate func(context.Context, *registry.Attributes) error
}

// Chain asks the plugins that look at the resource, in Kubernetes' order. It
// implements registry.Admission.
type Chain struct {
	steps map[schema.GroupResource][]step
	// always are asked for every resource, last.
	always []step
	quotas *quotas
}

var _ registry.Admission = (*Chain)(nil)

// New makes the chain with all plugins.
func New(c Config) *Chain {
	if c.Now == nil {
		c.Now = time.Now
	}
	counted := &quotas{objects: c.Objects, from: c.Objects, now: c.Now}
	chain := &Chain{steps: map[schema.GroupResource][]step{}, always: []step{{validate: counted.validate}}, quotas: counted}
	namespaces := namespaceLifecycle{c.Objects, c.Defaults}
	limits := limitRanger{c.Objects}
	accounts := serviceAccounts{c.Objects}
	nodes := nodeRestriction{c.Objects}
	priorities := &priorities{objects: c.Objects}
	classes := runtimeClasses{c.Objects}
	grants := escalation{c.Access}
	security := mustPodSecurity(c.Objects)

	chain.add("namespaces", step{admit: namespaces.admit, validate: security.validate})
	chain.add("pods",
		step{limits.admit, limits.validate},
		step{accounts.admit, accounts.validate},
		step{validate: nodes.pod},
		step{admit: priorities.admit},
		step{admit: defaultTolerations},
		step{admit: podTopology{c.Objects}.admit},
		step{classes.admit, classes.validate},
		step{validate: security.validate},
	)
	for _, resource := range securityTemplates {
		chain.add(resource, step{validate: security.validate})
	}
	chain.add("persistentvolumeclaims", step{admit: storageClasses{c.Objects}.admit}, step{validate: limits.validateClaim}, step{validate: nodes.claim}, step{validate: claimResize{c.Objects}.validate}, step{validate: claimAttributes})
	chain.add("ingresses.networking.k8s.io", step{admit: ingressClasses{c.Objects}.admit})
	chain.add("nodes", step{admit: taintNew}, step{validate: nodes.node})
	chain.add("serviceaccounts", step{validate: nodes.token})
	chain.add("leases.coordination.k8s.io", step{validate: nodes.lease})
	chain.add("csinodes.storage.k8s.io", step{validate: nodes.csiNode})
	chain.add("priorityclasses.scheduling.k8s.io", step{validate: priorities.validateClass})
	chain.add("roles.rbac.authorization.k8s.io", step{validate: grants.role})
	chain.add("clusterroles.rbac.authorization.k8s.io", step{validate: grants.clusterRole})
	chain.add("rolebindings.rbac.authorization.k8s.io", step{validate: grants.roleBinding})
	chain.add("clusterrolebindings.rbac.authorization.k8s.io", step{validate: grants.clusterRoleBinding})
	chain.add("policies.policy.berth.dev", step{validate: grants.policy})
	return chain
}

// Run keeps what the plugins count in the objects' status, until ctx ends.
func (c *Chain) Run(ctx context.Context) error { return c.quotas.Run(ctx) }

func (c *Chain) add(resource string, steps ...step) {
	gr := schema.ParseGroupResource(resource)
	c.steps[gr] = append(c.steps[gr], steps...)
}

// Admit implements registry.Admission.
func (c *Chain) Admit(ctx context.Context, a *registry.Attributes) error {
	for _, steps := range [][]step{c.steps[a.Resource], c.always} {
		for _, s := range steps {
			if s.admit == nil {
				continue
			}
			if err := s.admit(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate implements registry.Admission.
func (c *Chain) Validate(ctx context.Context, a *registry.Attributes) error {
	for _, steps := range [][]step{c.steps[a.Resource], c.always} {
		for _, s := range steps {
			if s.validate == nil {
				continue
			}
			if err := s.validate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// forbid is a refusal in Kubernetes' form.
func forbid(a *registry.Attributes, format string, args ...any) error {
	name := a.Name
	if name == "" && a.Object != nil {
		name = a.Object.GetGenerateName()
	}
	if name == "" {
		name = "Unknown"
	}
	return apierrors.NewForbidden(a.Resource, name, fmt.Errorf(format, args...))
}

// whole tells that the write is of the object itself, not of a subresource.
func whole(a *registry.Attributes, operations ...registry.Operation) bool {
	if a.Subresource != "" {
		return false
	}
	for _, op := range operations {
		if a.Operation == op {
			return true
		}
	}
	return false
}
