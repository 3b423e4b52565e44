package kind

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/warning"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper/qos"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/features"
)

// podStrategy is Strategy and, beyond rules, the grace that pods get.
type podStrategy struct{ *rules[*core.Pod] }

var pods = podStrategy{typed(rules[*core.Pod]{
	onCreate: preparePod,
	onUpdate: func(_ context.Context, pod, old *core.Pod) {
		pod.Status = old.Status
		podutil.DropDisabledPodFields(pod, old)
		countPodSpec(pod, old)
	},
	validate: func(_ context.Context, pod *core.Pod) field.ErrorList {
		return validation.ValidatePodCreate(pod, podOptions(pod, nil))
	},
	validateUpdate: func(_ context.Context, pod, old *core.Pod) field.ErrorList {
		return validation.ValidatePodUpdate(pod, old, podOptions(pod, old))
	},
	warnCreate: warnPod,
})}

var podStatus = typed(rules[*core.Pod]{
	onUpdate: func(_ context.Context, pod, old *core.Pod) {
		pod.Spec = old.Spec
		pod.DeletionTimestamp = nil
		pod.OwnerReferences = old.OwnerReferences
		if pod.Status.QOSClass == "" {
			pod.Status.QOSClass = old.Status.QOSClass
		}
		keepObserved(pod, old)
		podutil.DropDisabledPodFields(pod, old)
	},
	validateUpdate: func(_ context.Context, pod, old *core.Pod) field.ErrorList {
		return validation.ValidatePodStatusUpdate(pod, old, podOptions(pod, old))
	},
})

var podEphemeral = typed(rules[*core.Pod]{
	onUpdate: func(_ context.Context, pod, old *core.Pod) {
		added := pod.Spec.EphemeralContainers
		pod.Spec, pod.Status = old.Spec, old.Status
		metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &old.ObjectMeta)
		pod.Spec.EphemeralContainers = added
		podutil.DropDisabledPodFields(pod, old)
		countPodSpec(pod, old)
	},
	validateUpdate: func(_ context.Context, pod, old *core.Pod) field.ErrorList {
		return validation.ValidatePodEphemeralContainersUpdate(pod, old, podOptions(pod, old))
	},
})

var podResize = typed(rules[*core.Pod]{
	onUpdate: func(_ context.Context, pod, old *core.Pod) {
		keepAllButResources(pod, old)
		podutil.DropDisabledPodFields(pod, old)
		countPodSpec(pod, old)
	},
	validateUpdate: func(_ context.Context, pod, old *core.Pod) field.ErrorList {
		return validation.ValidatePodResize(pod, old, podOptions(pod, old))
	},
})

func podOptions(pod, old *core.Pod) validation.PodValidationOptions {
	var oldSpec *core.PodSpec
	var oldMeta *metav1.ObjectMeta
	if old != nil {
		oldSpec, oldMeta = &old.Spec, &old.ObjectMeta
	}
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, oldSpec, &pod.ObjectMeta, oldMeta)
	opts.ResourceIsPod = true
	if old == nil {
		opts.AllowRestartAllContainers = false // no node agent does it
	}
	return opts
}

func preparePod(ctx context.Context, pod *core.Pod) {
	pod.Generation = 1
	pod.Status = core.PodStatus{Phase: core.PodPending, QOSClass: qos.GetPodQOS(pod)}
	podutil.DropDisabledPodFields(pod, nil)
	if len(pod.Spec.SchedulingGates) > 0 {
		podutil.UpdatePodCondition(&pod.Status, &core.PodCondition{
			Type: core.PodScheduled, Status: core.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates",
		})
	}
	mergeLabelKeys(pod)
	syncAppArmor(ctx, pod)
}

// mergeLabelKeys writes the values of matchLabelKeys into the selectors that
// the scheduler reads.
func mergeLabelKeys(pod *core.Pod) {
	if aff := pod.Spec.Affinity; aff != nil {
		if a := aff.PodAffinity; a != nil {
			mergeTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, pod.Labels)
		}
		if a := aff.PodAntiAffinity; a != nil {
			mergeTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, pod.Labels)
		}
	}
	gate := utilfeature.DefaultFeatureGate
	if !gate.Enabled(features.MatchLabelKeysInPodTopologySpread) || !gate.Enabled(features.MatchLabelKeysInPodTopologySpreadSelectorMerge) {
		return
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		mergeKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
	}
}

func mergeTerms(required []core.PodAffinityTerm, preferred []core.WeightedPodAffinityTerm, labels map[string]string) {
	merge := func(t *core.PodAffinityTerm) {
		mergeKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
		mergeKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
	}
	for i := range required {
		merge(&required[i])
	}
	for i := range preferred {
		merge(&preferred[i].PodAffinityTerm)
	}
}

func mergeKeys(sel *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator, labels map[string]string) {
	if sel == nil {
		return
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			sel.MatchExpressions = append(sel.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
		}
	}
}

// syncAppArmor moves the profile from the old annotation into the field.
func syncAppArmor(ctx context.Context, pod *core.Pod) {
	if len(pod.Annotations) == 0 || (pod.Spec.OS != nil && pod.Spec.OS.Name == core.Windows) {
		return
	}
	var podProfile *core.AppArmorProfile
	if pod.Spec.SecurityContext != nil {
		podProfile = pod.Spec.SecurityContext.AppArmorProfile
	}
	podutil.VisitContainers(&pod.Spec, podutil.AllFeatureEnabledContainers(), func(c *core.Container, _ podutil.ContainerType) bool {
		key := core.DeprecatedAppArmorAnnotationKeyPrefix + c.Name
		annotation, ok := pod.Annotations[key]
		if !ok || (c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil) {
			return true
		}
		profile := podutil.ApparmorFieldForAnnotation(annotation)
		if errs := validation.ValidateAppArmorProfileField(profile, &field.Path{}); len(errs) > 0 {
			profile = nil
		}
		if profile != nil && apiequality.Semantic.DeepEqual(profile, podProfile) {
			return true
		}
		if profile != nil {
			if c.SecurityContext == nil {
				c.SecurityContext = &core.SecurityContext{}
			}
			c.SecurityContext.AppArmorProfile = profile
		}
		path := field.NewPath("metadata", "annotations").Key(key)
		warning.AddWarning(ctx, "", fmt.Sprintf(`%s: deprecated since v1.30; use the "appArmorProfile" field instead`, path))
		return true
	})
}

func warnPod(ctx context.Context, pod *core.Pod) []string {
	var warnings []string
	if msgs := utilvalidation.IsDNS1123Label(pod.Name); len(msgs) != 0 {
		warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: %v", msgs))
	}
	return append(warnings, podutil.GetWarningsForPod(ctx, pod, nil)...)
}

// countPodSpec raises the generation when the spec changed.
func countPodSpec(pod, old *core.Pod) {
	if !apiequality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		pod.Generation++
	}
}

// keepObserved keeps generations that a client which doesn't know the field
// would clear.
func keepObserved(pod, old *core.Pod) {
	if pod.Status.ObservedGeneration == 0 {
		pod.Status.ObservedGeneration = old.Status.ObservedGeneration
	}
	before := map[core.PodConditionType][]int64{}
	for _, c := range old.Status.Conditions {
		before[c.Type] = append(before[c.Type], c.ObservedGeneration)
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		queue := before[c.Type]
		if len(queue) == 0 {
			continue
		}
		before[c.Type] = queue[1:]
		if c.ObservedGeneration == 0 {
			c.ObservedGeneration = queue[0]
		}
	}
}

// keepAllButResources discards what the resize subresource may not change.
// Added, renamed and reordered containers stay, for validation to refuse.
func keepAllButResources(pod, old *core.Pod) {
	if len(pod.Spec.Containers) != len(old.Spec.Containers) || len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return
	}
	podLevel := pod.Spec.Resources
	containers := onlyResources(pod.Spec.Containers, old.Spec.Containers)
	inits := onlyResources(pod.Spec.InitContainers, old.Spec.InitContainers)
	pod.Spec, pod.Status = old.Spec, old.Status
	if utilfeature.DefaultFeatureGate.Enabled(features.InPlacePodLevelResourcesVerticalScaling) {
		pod.Spec.Resources = podLevel
	}
	metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &old.ObjectMeta)
	pod.Spec.Containers, pod.Spec.InitContainers = containers, inits
}

func onlyResources(now, old []core.Container) []core.Container {
	if len(now) == 0 {
		return now
	}
	merged := append([]core.Container(nil), old...)
	for i := range now {
		if merged[i].Name != now[i].Name {
			return now
		}
		merged[i].Resources, merged[i].ResizePolicy = now[i].Resources, now[i].ResizePolicy
	}
	return merged
}

// CheckGracefulDelete settles how long a pod may take to end: not at all when
// nobody runs it.
func (podStrategy) CheckGracefulDelete(_ context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	if options == nil {
		return false
	}
	pod := obj.(*core.Pod)
	var period int64
	switch {
	case options.GracePeriodSeconds != nil:
		period = *options.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	done := pod.Status.Phase == core.PodFailed || pod.Status.Phase == core.PodSucceeded
	if pod.Spec.NodeName == "" || done {
		period = 0
	}
	if period < 0 {
		period = 1
	}
	options.GracePeriodSeconds = &period
	return true
}
