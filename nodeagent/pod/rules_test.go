package pod

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The first rule that an exit code meets decides; one whose action is not known leaves
// it to the policy.
func TestTheFirstRuleForAnExitCodeDecides(t *testing.T) {
	t.Parallel()
	rule := func(action v1.ContainerRestartRuleAction, op v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) v1.ContainerRestartRule {
		return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}
	}
	const in, notIn = v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn
	for _, tt := range []struct {
		name  string
		rules []v1.ContainerRestartRule
		code  int32
		again bool
	}{
		{"no rule", nil, 3, false},
		{"one that is met", []v1.ContainerRestartRule{rule("Restart", in, 2, 3)}, 3, true},
		{"one that is not", []v1.ContainerRestartRule{rule("Restart", in, 2)}, 3, false},
		{"one for all other codes", []v1.ContainerRestartRule{rule("Restart", notIn, 2)}, 3, true},
		{"another action before it", []v1.ContainerRestartRule{rule("RestartAllContainers", in, 3), rule("Restart", in, 3)}, 3, false},
		{"another action after it", []v1.ContainerRestartRule{rule("Restart", in, 3), rule("RestartAllContainers", in, 3)}, 3, true},
		{"another action, not met", []v1.ContainerRestartRule{rule("RestartAllContainers", in, 4), rule("Restart", in, 3)}, 3, true},
	} {
		p, never := podOf(v1.RestartPolicyAlways, "app"), v1.ContainerRestartPolicyNever
		p.Spec.Containers[0].RestartPolicy, p.Spec.Containers[0].RestartPolicyRules = &never, tt.rules
		w := newWorld(t, p)
		w.settle()
		w.exit("app", tt.code)
		if a := w.rec.Next(w.now); (a.Kind == StartContainer) != tt.again {
			t.Errorf("%s: %+v", tt.name, a)
		}
	}
}
