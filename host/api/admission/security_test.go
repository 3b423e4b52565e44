package admission

import (
	"maps"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// secured is a namespace whose labels speak of pod security, by pairs.
func secured(name string, labels ...string) *corev1.Namespace {
	set := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		set["pod-security.kubernetes.io/"+labels[i]] = labels[i+1]
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}}
}

// heard is what a request was told beside its answer.
type heard struct {
	warnings []string
	audited  map[string]string
}

func (h *heard) hears(r *registry.Request) *registry.Request {
	r.Warn = func(text string) { h.warnings = append(h.warnings, text) }
	r.Annotate = func(key, value string) {
		if h.audited == nil {
			h.audited = map[string]string{}
		}
		h.audited[key] = value
	}
	return r
}

func privilegedPod() *corev1.Pod {
	pod := plainPod()
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	return pod
}

func TestPodsMeetTheStandardOfTheirNamespace(t *testing.T) {
	t.Parallel()
	const (
		breaks = `violates PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)`
		would  = "would violate PodSecurity "
	)
	for name, test := range map[string]struct {
		labels  []string
		pod     *corev1.Pod
		refused string
		warning string
		audited string
	}{
		"without labels a pod may be privileged":         {nil, privilegedPod(), "", "", ""},
		"a privileged pod breaks the baseline":           {[]string{"enforce", "baseline"}, privilegedPod(), breaks, "", ""},
		"a plain pod keeps the baseline":                 {[]string{"enforce", "baseline"}, plainPod(), "", "", ""},
		"who is refused is not warned too":               {[]string{"enforce", "baseline", "warn", "restricted"}, privilegedPod(), breaks, "", ""},
		"a plain pod is warned of the stricter level":    {[]string{"enforce", "baseline", "warn", "restricted"}, plainPod(), "", would + `"restricted:latest"`, ""},
		"a level without enforcement warns":              {[]string{"warn", "baseline"}, privilegedPod(), "", would + `"baseline:latest": privileged`, ""},
		"the audit log hears of what is not refused":     {[]string{"audit", "baseline"}, privilegedPod(), "", "", would + `"baseline:latest": privileged`},
		"a level may be that of an older version":        {[]string{"enforce", "baseline", "enforce-version", "v1.24"}, privilegedPod(), `violates PodSecurity "baseline:v1.24"`, "", ""},
		"the level privileged forbids nothing, if named": {[]string{"enforce", "privileged"}, privilegedPod(), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.create(t, "namespaces", "", secured("own", test.labels...))
			var h heard
			_, err := c.Create(t.Context(), h.hears(registry.On("pods", "own", "")), test.pod)
			if test.refused != "" {
				refused(t, err, test.refused)
			} else if err != nil {
				t.Errorf("Create: %v", err)
			}
			if got := strings.Join(h.warnings, "\n"); !strings.HasPrefix(got, test.warning) || test.warning == "" && got != "" {
				t.Errorf("warnings = %q, want %q", got, test.warning)
			}
			if got := h.audited["pod-security.kubernetes.io/audit-violations"]; !strings.HasPrefix(got, test.audited) || test.audited == "" && got != "" {
				t.Errorf("audited = %q, want %q", got, test.audited)
			}
		})
	}
}

// TestTemplatesAreWarnedOf: they are no pods yet, so nothing is refused.
func TestTemplatesAreWarnedOf(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(t, "namespaces", "", secured("strict", "enforce", "restricted", "warn", "baseline"))
	labels := map[string]string{"app": "a"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: privilegedPod().Spec}
	batch := template
	batch.Spec.RestartPolicy = corev1.RestartPolicyNever
	meta, selector := metav1.ObjectMeta{Name: "w"}, &metav1.LabelSelector{MatchLabels: labels}
	for resource, obj := range map[string]store.Object{
		"deployments.apps":  &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}},
		"replicasets.apps":  &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}},
		"daemonsets.apps":   &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}},
		"statefulsets.apps": &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template, ServiceName: "w"}},
		"jobs.batch":        &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: batch}},
	} {
		t.Run(resource, func(t *testing.T) {
			var h heard
			if _, err := c.Create(t.Context(), h.hears(registry.On(resource, "strict", "")), obj); err != nil {
				t.Fatal(err)
			}
			if len(h.warnings) != 1 || !strings.HasPrefix(h.warnings[0], `would violate PodSecurity "baseline:latest": privileged`) {
				t.Errorf("warnings = %q", h.warnings)
			}
		})
	}
}

func TestLabelsOfPodSecurityAreChecked(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, err := c.Create(t.Context(), registry.On("namespaces", "", ""), secured("garbled", "enforce", "basline"))
	if err == nil || !strings.Contains(err.Error(), "must be one of privileged, baseline, restricted") {
		t.Errorf("Create: %v, want the levels that there are", err)
	}
}

// TestAStricterLevelTellsWhoBreaksIt: pods that are there stay.
func TestAStricterLevelTellsWhoBreaksIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, name := range []string{"b", "a"} {
		pod := privilegedPod()
		pod.Name = name
		c.create(t, "pods", "dev", pod)
	}
	var h heard
	_, err := c.Modify(t.Context(), h.hears(registry.On("namespaces", "", "dev")), func(old store.Object) (store.Object, error) {
		next := old.DeepCopyObject().(*corev1.Namespace)
		next.Labels = maps.Clone(next.Labels)
		maps.Copy(next.Labels, secured("", "enforce", "baseline").Labels)
		return next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`existing pods in namespace "dev" violate the new PodSecurity enforce level "baseline:latest"`,
		"a (and 1 other pod): privileged",
	}
	if diff := cmp.Diff(want, h.warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
