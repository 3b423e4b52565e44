package controller

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestOnlyATemplateIsAnObjectsOrigin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from string
		want bool
	}{
		{"spec.template", true},
		{"spec", false},
		{"metadata", false},
		{"status", false},
		{"spec.strategy", false},
		{"spec.nothing", false},
	} {
		if err := fromTemplate(&corev1.Pod{}, &appsv1.Deployment{}, tt.from); (err == nil) != tt.want {
			t.Errorf("fromTemplate(%q) = %v, want success to be %v", tt.from, err, tt.want)
		}
	}
}
