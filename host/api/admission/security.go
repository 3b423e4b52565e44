package admission

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/pod-security-admission/admission"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"
)

// podSecurity holds pods to the Pod Security Standard that the labels of their
// namespace name: by refusing, by a warning, or by a line of the audit log. Of
// templates it warns, of pods that are there when a level becomes stricter too.
// The judgement is Kubernetes' own library; without labels all is allowed.
type podSecurity struct{ library *admission.Admission }

// securityTemplates are the kinds that hold a template of pods.
var securityTemplates = []string{
	"replicationcontrollers", "podtemplates", "replicasets.apps", "deployments.apps", "statefulsets.apps", "daemonsets.apps",
	"jobs.batch", "cronjobs.batch",
}

func mustPodSecurity(objects view.Objects) podSecurity {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(fmt.Sprintf("the checks of the Pod Security Standards contradict each other: %v", err)) // constants of a library
	}
	privileged, latest := string(api.LevelPrivileged), api.LatestVersion().String()
	library := &admission.Admission{
		Configuration: &admissionapi.PodSecurityConfiguration{Defaults: admissionapi.PodSecurityDefaults{
			Enforce: privileged, EnforceVersion: latest, Audit: privileged, AuditVersion: latest, Warn: privileged, WarnVersion: latest,
		}},
		Evaluator: evaluator, Metrics: uncounted{}, PodSpecExtractor: admission.DefaultPodSpecExtractor{},
		NamespaceGetter: securityView{objects}, PodLister: securityView{objects},
	}
	if err := library.CompleteConfiguration(); err != nil {
		panic(fmt.Sprintf("Pod Security admission: %v", err)) // constants, too
	}
	if err := library.ValidateConfiguration(); err != nil {
		panic(fmt.Sprintf("Pod Security admission: %v", err))
	}
	return podSecurity{library}
}

func (p podSecurity) validate(ctx context.Context, a *registry.Attributes) error {
	if a.Operation != registry.Create && a.Operation != registry.Update {
		return nil
	}
	about := &api.AttributesRecord{
		Name: a.Name, Namespace: a.Namespace, Kind: a.Kind, Resource: schema.GroupVersionResource{Group: a.Resource.Group, Version: a.Kind.Version, Resource: a.Resource.Resource},
		Subresource: a.Subresource, Operation: admissionv1.Operation(a.Operation), Object: a.Object, OldObject: a.Old,
	}
	if a.User != nil {
		about.Username = a.User.GetName()
	}
	answer := p.library.Validate(ctx, about)
	for _, text := range answer.Warnings {
		a.Warn(text)
	}
	for key, value := range answer.AuditAnnotations {
		a.Annotate(api.AuditAnnotationPrefix+key, value)
	}
	if answer.Allowed {
		return nil
	}
	if answer.Result == nil {
		return forbid(a, "Not allowed by PodSecurity")
	}
	return &apierrors.StatusError{ErrStatus: *answer.Result}
}

// securityView is what the library reads of the store.
type securityView struct{ objects view.Objects }

// GetNamespace implements admission.NamespaceGetter.
func (v securityView) GetNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return view.Get[*corev1.Namespace](ctx, v.objects, view.Namespaces, "", name)
}

// ListPods implements admission.PodLister. The library sorts the list in place.
func (v securityView) ListPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	list, err := v.objects.List(ctx, view.Pods, namespace)
	if err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, 0, len(list))
	for _, obj := range list {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// uncounted drops the library's counts: they want Kubernetes' registry of
// metrics, which the host has not.
type uncounted struct{}

// RecordEvaluation implements metrics.Recorder.
func (uncounted) RecordEvaluation(metrics.Decision, api.LevelVersion, metrics.Mode, api.Attributes) {}

// RecordExemption implements metrics.Recorder.
func (uncounted) RecordExemption(api.Attributes) {}

// RecordError implements metrics.Recorder.
func (uncounted) RecordError(bool, api.Attributes) {}
