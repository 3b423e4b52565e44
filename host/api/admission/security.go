package admission

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// podSecurity holds pods to the Pod Security Standard that the labels of their
// namespace name: by refusing, or by a warning.
type podSecurity struct {
	objects   view.Objects
	evaluator policy.Evaluator
}

const securityLabels = "pod-security.kubernetes.io/"

func mustPodSecurity(objects view.Objects) podSecurity {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(fmt.Sprintf("the checks of the Pod Security Standards contradict each other: %v", err)) // constants of a library
	}
	return podSecurity{objects, evaluator}
}

func (p podSecurity) validate(ctx context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	ephemeral := a.Subresource == "ephemeralcontainers" && a.Operation == registry.Update
	if !ok || !ephemeral && !whole(a, registry.Create) {
		return nil
	}
	ns, err := view.Get[*corev1.Namespace](ctx, p.objects, view.Namespaces, "", a.Namespace)
	if err != nil || !speaksOfSecurity(ns.Labels) {
		return err
	}
	// A label that nobody can read stands for the strictest level.
	wanted, problems := api.PolicyToEvaluate(ns.Labels, privileged)
	for _, problem := range problems {
		a.Warn(fmt.Sprintf("namespace %s: %v", ns.Name, problem))
	}
	if result := p.evaluate(wanted.Enforce, pod); !result.Allowed {
		return forbid(a, "violates PodSecurity %q: %s", wanted.Enforce.String(), result.ForbiddenDetail())
	}
	if wanted.Warn == wanted.Enforce {
		return nil
	}
	if result := p.evaluate(wanted.Warn, pod); !result.Allowed {
		a.Warn(fmt.Sprintf("would violate PodSecurity %q: %s", wanted.Warn.String(), result.ForbiddenDetail()))
	}
	return nil
}

var (
	unbounded  = api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	privileged = api.Policy{Enforce: unbounded, Audit: unbounded, Warn: unbounded}
)

func (p podSecurity) evaluate(level api.LevelVersion, pod *corev1.Pod) policy.AggregateCheckResult {
	return policy.AggregateCheckResults(p.evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
}

func speaksOfSecurity(labels map[string]string) bool {
	for key := range labels {
		if strings.HasPrefix(key, securityLabels) {
			return true
		}
	}
	return false
}
