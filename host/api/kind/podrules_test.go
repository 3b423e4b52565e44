package kind

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Nothing on a node carries out the action RestartAllContainers.
func TestARuleThatNobodyCarriesOutIsRefused(t *testing.T) {
	t.Parallel()
	k := MustStored("pods")
	never := corev1.ContainerRestartPolicyNever
	for action, want := range map[corev1.ContainerRestartRuleAction]string{
		corev1.ContainerRestartRuleActionRestart:              "",
		corev1.ContainerRestartRuleActionRestartAllContainers: `restartPolicyRules[0].action: Unsupported value: "RestartAllContainers": supported values: "Restart"`,
	} {
		p := &corev1.Pod{}
		p.Namespace, p.Name = "default", "web"
		p.Spec.Containers = []corev1.Container{{Name: "app", Image: "busybox:1", RestartPolicy: &never, RestartPolicyRules: []corev1.ContainerRestartRule{{
			Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{3}},
		}}}}
		Scheme.Default(p)
		hub, err := k.Internal(p)
		if err != nil {
			t.Fatal(err)
		}
		k.Strategy.PrepareForCreate(t.Context(), hub)
		text := ""
		if err := k.Strategy.Validate(t.Context(), hub).ToAggregate(); err != nil {
			text = err.Error()
		}
		if want == "" && text != "" || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", action, text, want)
		}
	}
}
