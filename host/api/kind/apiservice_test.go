package kind

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func TestAnAPIServiceIsShownWithItsServiceAndAvailability(t *testing.T) {
	t.Parallel()
	service := &apiregistrationv1.ServiceReference{Namespace: "monitoring", Name: "adapter"}
	for want, s := range map[[2]string]apiregistrationv1.APIService{
		{"Local", "True"}: {Status: available(apiregistrationv1.ConditionTrue, "Local")},
		{"monitoring/adapter", "False (MissingEndpoints)"}: {
			Spec: apiregistrationv1.APIServiceSpec{Service: service}, Status: available(apiregistrationv1.ConditionFalse, "MissingEndpoints"),
		},
		{"monitoring/adapter", "Unknown"}: {Spec: apiregistrationv1.APIServiceSpec{Service: service}},
	} {
		if diff := cmp.Diff([]any{want[0], want[1]}, apiServiceColumns.Cells(&s)); diff != "" {
			t.Error(diff)
		}
	}
}

func available(status apiregistrationv1.ConditionStatus, reason string) apiregistrationv1.APIServiceStatus {
	return apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: status, Reason: reason}}}
}

func TestAnAPIServiceIsValidatedAsKubeAggregatorDoes(t *testing.T) {
	t.Parallel()
	k := MustStored("apiservices.apiregistration.k8s.io")
	port := int32(443)
	sound := func() *apiregistrationv1.APIService {
		return &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1beta1.metrics.example.com"},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: "metrics.example.com", Version: "v1beta1", GroupPriorityMinimum: 100, VersionPriority: 100, InsecureSkipTLSVerify: true,
				Service: &apiregistrationv1.ServiceReference{Namespace: "monitoring", Name: "adapter", Port: &port},
			},
		}
	}
	for name, spoil := range map[string]func(*apiregistrationv1.APIService){
		"another name":                  func(s *apiregistrationv1.APIService) { s.Name = "v1.metrics.example.com" },
		"a bundle that is not asked":    func(s *apiregistrationv1.APIService) { s.Spec.CABundle = []byte("x") },
		"no priority of the group":      func(s *apiregistrationv1.APIService) { s.Spec.GroupPriorityMinimum = 0 },
		"a version's priority too high": func(s *apiregistrationv1.APIService) { s.Spec.VersionPriority = 1001 },
		"a service without a name":      func(s *apiregistrationv1.APIService) { s.Spec.Service.Name = "" },
	} {
		s := sound()
		spoil(s)
		hub, err := k.Internal(s)
		if err != nil {
			t.Fatal(err)
		}
		if errs := k.Strategy.Validate(t.Context(), hub); len(errs) == 0 {
			t.Errorf("%s is accepted", name)
		}
	}
	hub, err := k.Internal(sound())
	if err != nil {
		t.Fatal(err)
	}
	if errs := k.Strategy.Validate(t.Context(), hub); len(errs) != 0 {
		t.Errorf("a sound one is refused: %v", errs)
	}
}
