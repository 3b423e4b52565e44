package kind

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/persistentvolume"
	"k8s.io/kubernetes/pkg/api/persistentvolumeclaim"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

var configMaps = typed(rules[*core.ConfigMap]{
	validate: func(_ context.Context, c *core.ConfigMap) field.ErrorList { return validation.ValidateConfigMap(c) },
	validateUpdate: func(_ context.Context, c, old *core.ConfigMap) field.ErrorList {
		return validation.ValidateConfigMapUpdate(c, old)
	},
})

var secrets = typed(rules[*core.Secret]{
	onUpdate: func(_ context.Context, s, old *core.Secret) {
		if s.Type == "" {
			s.Type = old.Type
		}
	},
	validate: func(_ context.Context, s *core.Secret) field.ErrorList { return validation.ValidateSecret(s) },
	validateUpdate: func(_ context.Context, s, old *core.Secret) field.ErrorList {
		return validation.ValidateSecretUpdate(s, old)
	},
	warnCreate: func(_ context.Context, s *core.Secret) []string { return warnSecret(s) },
	warnUpdate: func(_ context.Context, s, _ *core.Secret) []string { return warnSecret(s) },
})

func warnSecret(s *core.Secret) []string {
	if s.Type != core.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[core.TLSCertKey], s.Data[core.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

var events = typed(rules[*core.Event]{
	createOnUpdate: true,
	validate: func(ctx context.Context, e *core.Event) field.ErrorList {
		return validation.ValidateEventCreate(e, requestVersion(ctx))
	},
	validateUpdate: func(ctx context.Context, e, old *core.Event) field.ErrorList {
		return validation.ValidateEventUpdate(e, old, requestVersion(ctx))
	},
})

func requestVersion(ctx context.Context) schema.GroupVersion {
	info, ok := apirequest.RequestInfoFrom(ctx)
	if !ok {
		return corev1.SchemeGroupVersion
	}
	return schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
}

var namespaces = typed(rules[*core.Namespace]{
	clusterScoped: true,
	onCreate: func(_ context.Context, ns *core.Namespace) {
		ns.Status = core.NamespaceStatus{Phase: core.NamespaceActive}
		if !slices.Contains(ns.Spec.Finalizers, core.FinalizerKubernetes) {
			ns.Spec.Finalizers = append(ns.Spec.Finalizers, core.FinalizerKubernetes)
		}
	},
	onUpdate: func(_ context.Context, ns, old *core.Namespace) {
		ns.Spec.Finalizers, ns.Status = old.Spec.Finalizers, old.Status
	},
	validate:       func(_ context.Context, ns *core.Namespace) field.ErrorList { return validation.ValidateNamespace(ns) },
	validateUpdate: validateNamespaceUpdate,
	canonical:      labelNamespace,
})

func validateNamespaceUpdate(_ context.Context, ns, old *core.Namespace) field.ErrorList {
	return append(validation.ValidateNamespace(ns), validation.ValidateNamespaceUpdate(ns, old)...)
}

// labelNamespace sets the name label, which defaults cannot know yet when the
// name is generated.
func labelNamespace(ns *core.Namespace) {
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

var namespaceStatus = typed(rules[*core.Namespace]{
	clusterScoped: true,
	onUpdate:      func(_ context.Context, ns, old *core.Namespace) { ns.Spec = old.Spec },
	validateUpdate: func(_ context.Context, ns, old *core.Namespace) field.ErrorList {
		return validation.ValidateNamespaceStatusUpdate(ns, old)
	},
	canonical: labelNamespace,
})

var namespaceFinalize = typed(rules[*core.Namespace]{
	clusterScoped: true,
	onUpdate:      func(_ context.Context, ns, old *core.Namespace) { ns.Status = old.Status },
	validateUpdate: func(_ context.Context, ns, old *core.Namespace) field.ErrorList {
		return validation.ValidateNamespaceFinalizeUpdate(ns, old)
	},
	canonical: labelNamespace,
})

var nodes = typed(rules[*core.Node]{
	clusterScoped: true,
	onCreate: func(_ context.Context, n *core.Node) {
		n.Spec.ConfigSource, n.Status.Config = nil, nil
	},
	onUpdate: func(_ context.Context, n, old *core.Node) {
		n.Status = old.Status
		if old.Spec.ConfigSource == nil {
			n.Spec.ConfigSource = nil
		}
	},
	validate: func(_ context.Context, n *core.Node) field.ErrorList { return validation.ValidateNode(n) },
	validateUpdate: func(_ context.Context, n, old *core.Node) field.ErrorList {
		return append(validation.ValidateNode(n), validation.ValidateNodeUpdate(n, old)...)
	},
	warnCreate: func(_ context.Context, n *core.Node) []string { return warnNode(n) },
	warnUpdate: func(_ context.Context, n, _ *core.Node) []string { return warnNode(n) },
})

var nodeStatus = typed(rules[*core.Node]{
	clusterScoped: true,
	onUpdate: func(_ context.Context, n, old *core.Node) {
		n.Spec = old.Spec
		if old.Status.Config == nil {
			n.Status.Config = nil
		}
	},
	validateUpdate: func(_ context.Context, n, old *core.Node) field.ErrorList {
		return validation.ValidateNodeUpdate(n, old)
	},
})

func warnNode(n *core.Node) []string {
	var warnings []string
	if n.Spec.ConfigSource != nil {
		warnings = append(warnings, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		warnings = append(warnings, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	path := field.NewPath("spec", "podCIDRs")
	for i, cidr := range n.Spec.PodCIDRs {
		warnings = append(warnings, utilvalidation.GetWarningsForCIDR(path.Index(i), cidr)...)
	}
	return warnings
}

var volumes = typed(rules[*core.PersistentVolume]{
	clusterScoped: true,
	onCreate: func(_ context.Context, pv *core.PersistentVolume) {
		now := metav1.Now()
		pv.Status = core.PersistentVolumeStatus{Phase: core.VolumePending, LastPhaseTransitionTime: &now}
		persistentvolume.DropDisabledSpecFields(&pv.Spec, nil)
	},
	onUpdate: func(_ context.Context, pv, old *core.PersistentVolume) {
		pv.Status = old.Status
		persistentvolume.DropDisabledSpecFields(&pv.Spec, &old.Spec)
	},
	validate: func(_ context.Context, pv *core.PersistentVolume) field.ErrorList {
		return validation.ValidatePersistentVolume(pv, validation.ValidationOptionsForPersistentVolume(pv, nil))
	},
	validateUpdate: func(_ context.Context, pv, old *core.PersistentVolume) field.ErrorList {
		opts := validation.ValidationOptionsForPersistentVolume(pv, old)
		return append(validation.ValidatePersistentVolume(pv, opts), validation.ValidatePersistentVolumeUpdate(pv, old, opts)...)
	},
	warnCreate: func(_ context.Context, pv *core.PersistentVolume) []string {
		return persistentvolume.GetWarningsForPersistentVolume(pv)
	},
	warnUpdate: func(_ context.Context, pv, _ *core.PersistentVolume) []string {
		return persistentvolume.GetWarningsForPersistentVolume(pv)
	},
})

var volumeStatus = typed(rules[*core.PersistentVolume]{
	clusterScoped: true,
	onUpdate: func(_ context.Context, pv, old *core.PersistentVolume) {
		pv.Spec = old.Spec
		moved, was := &pv.Status, &old.Status
		switch {
		case moved.Phase == was.Phase && moved.LastPhaseTransitionTime == nil:
			moved.LastPhaseTransitionTime = was.LastPhaseTransitionTime
		case moved.Phase != was.Phase && (moved.LastPhaseTransitionTime == nil || moved.LastPhaseTransitionTime.Equal(was.LastPhaseTransitionTime)):
			now := metav1.Now()
			moved.LastPhaseTransitionTime = &now
		}
	},
	validateUpdate: func(_ context.Context, pv, old *core.PersistentVolume) field.ErrorList {
		return validation.ValidatePersistentVolumeStatusUpdate(pv, old)
	},
})

var claims = typed(rules[*core.PersistentVolumeClaim]{
	onCreate: func(_ context.Context, c *core.PersistentVolumeClaim) {
		c.Status = core.PersistentVolumeClaimStatus{Phase: core.ClaimPending}
		persistentvolumeclaim.DropDisabledFields(&c.Spec, nil)
		persistentvolumeclaim.EnforceDataSourceBackwardsCompatibility(&c.Spec, nil)
		persistentvolumeclaim.NormalizeDataSources(&c.Spec)
	},
	onUpdate: func(_ context.Context, c, old *core.PersistentVolumeClaim) {
		c.Status = old.Status
		persistentvolumeclaim.DropDisabledFields(&c.Spec, &old.Spec)
		persistentvolumeclaim.EnforceDataSourceBackwardsCompatibility(&c.Spec, &old.Spec)
		persistentvolumeclaim.NormalizeDataSources(&c.Spec)
		persistentvolumeclaim.NormalizeDataSources(&old.Spec)
	},
	validate: func(_ context.Context, c *core.PersistentVolumeClaim) field.ErrorList {
		return validation.ValidatePersistentVolumeClaim(c, validation.ValidationOptionsForPersistentVolumeClaim(c, nil))
	},
	validateUpdate: func(_ context.Context, c, old *core.PersistentVolumeClaim) field.ErrorList {
		return validation.ValidatePersistentVolumeClaimUpdate(c, old, validation.ValidationOptionsForPersistentVolumeClaim(c, old))
	},
	warnCreate: func(_ context.Context, c *core.PersistentVolumeClaim) []string {
		return persistentvolumeclaim.GetWarningsForPersistentVolumeClaim(c)
	},
	warnUpdate: func(_ context.Context, c, _ *core.PersistentVolumeClaim) []string {
		return persistentvolumeclaim.GetWarningsForPersistentVolumeClaim(c)
	},
})

var claimStatus = typed(rules[*core.PersistentVolumeClaim]{
	onUpdate: func(_ context.Context, c, old *core.PersistentVolumeClaim) {
		c.Spec = old.Spec
		persistentvolumeclaim.DropDisabledFieldsFromStatus(c, old)
	},
	validateUpdate: func(_ context.Context, c, old *core.PersistentVolumeClaim) field.ErrorList {
		return validation.ValidatePersistentVolumeClaimStatusUpdate(c, old, validation.ValidationOptionsForPersistentVolumeClaim(c, old))
	},
})

var replicationControllers = typed(rules[*core.ReplicationController]{
	onCreate: func(_ context.Context, rc *core.ReplicationController) {
		rc.Status, rc.Generation = core.ReplicationControllerStatus{}, 1
		podutil.DropDisabledTemplateFields(rc.Spec.Template, nil)
	},
	onUpdate: func(_ context.Context, rc, old *core.ReplicationController) {
		rc.Status = old.Status
		podutil.DropDisabledTemplateFields(rc.Spec.Template, old.Spec.Template)
		if !apiequality.Semantic.DeepEqual(old.Spec, rc.Spec) {
			rc.Generation = old.Generation + 1
		}
	},
	validate: func(_ context.Context, rc *core.ReplicationController) field.ErrorList {
		return validation.ValidateReplicationController(rc, podutil.GetValidationOptionsFromPodTemplate(rc.Spec.Template, nil))
	},
	validateUpdate: func(_ context.Context, rc, old *core.ReplicationController) field.ErrorList {
		return validation.ValidateReplicationControllerUpdate(rc, old, podutil.GetValidationOptionsFromPodTemplate(rc.Spec.Template, old.Spec.Template))
	},
	warnCreate: func(ctx context.Context, rc *core.ReplicationController) []string {
		return append(warnLabelName(rc.Name), podutil.GetWarningsForPodTemplate(ctx, field.NewPath("spec", "template"), rc.Spec.Template, nil)...)
	},
	warnUpdate: func(ctx context.Context, rc, old *core.ReplicationController) []string {
		if rc.Generation == old.Generation {
			return nil
		}
		return podutil.GetWarningsForPodTemplate(ctx, field.NewPath("spec", "template"), rc.Spec.Template, old.Spec.Template)
	},
})

var replicationControllerStatus = typed(rules[*core.ReplicationController]{
	onUpdate: func(_ context.Context, rc, old *core.ReplicationController) { rc.Spec = old.Spec },
	validateUpdate: func(_ context.Context, rc, old *core.ReplicationController) field.ErrorList {
		return validation.ValidateReplicationControllerStatusUpdate(rc, old)
	},
})

// warnLabelName warns of names that don't make hostnames of pods.
func warnLabelName(name string) []string {
	msgs := utilvalidation.IsDNS1123Label(name)
	if len(msgs) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", msgs)}
}
