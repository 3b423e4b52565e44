package kind

import (
	"strings"
	"testing"

	policyv1alpha1 "github.com/berth-dev/berth/host/policy/v1alpha1"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWhatAProfileMayNotSay(t *testing.T) {
	t.Parallel()
	group := func(members ...string) policyv1alpha1.ProfileSpec {
		return policyv1alpha1.ProfileSpec{Groups: []policyv1alpha1.PredicateGroup{{Name: "all", Members: members}}}
	}
	for _, c := range []struct {
		name string
		spec policyv1alpha1.ProfileSpec
		want string
	}{
		{"a group", group("a", "b"), ""},
		{"a group with a member twice", group("a", "b", "a"), `spec.groups[0].members[2]: Duplicate value: "a"`},
		{"a group with a member of no name", group(""), "spec.groups[0].members[0]: Required value"},
		{"a weight below 0", policyv1alpha1.ProfileSpec{Priorities: []policyv1alpha1.ProfilePriority{{Name: "a", Weight: -1}}}, "weight: Invalid value: -1"},
	} {
		errs := validateProfileSpec(&c.spec, field.NewPath("spec"))
		if c.want == "" && len(errs) == 0 {
			continue
		}
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) || c.want == "" {
			t.Errorf("%s: %v, want %q", c.name, errs, c.want)
		}
	}
}

func TestAConfigIsOnlySoLong(t *testing.T) {
	t.Parallel()
	spec := func(n int) *policyv1alpha1.PolicySpec {
		raw := []byte(`"` + strings.Repeat("x", n-2) + `"`)
		return &policyv1alpha1.PolicySpec{Module: "sha256-0", Config: &runtime.RawExtension{Raw: raw}}
	}
	if errs := validatePolicySpec(spec(MaxPolicyConfig), field.NewPath("spec")); len(errs) != 0 {
		t.Errorf("a config of %d bytes: %v", MaxPolicyConfig, errs)
	}
	errs := validatePolicySpec(spec(MaxPolicyConfig+1), field.NewPath("spec"))
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "spec.config: Too long") {
		t.Errorf("a config of %d bytes: %v", MaxPolicyConfig+1, errs)
	}
}

func TestAModuleHasOnlySoManySignatures(t *testing.T) {
	t.Parallel()
	m := &policyv1alpha1.Module{Spec: policyv1alpha1.ModuleSpec{Digest: "sha256:" + strings.Repeat("0", 64)}}
	m.Name, m.ResourceVersion = "sha256-"+strings.Repeat("0", 64), "1"
	more := m.DeepCopy()
	more.Spec.Signatures = make([]policyv1alpha1.Signature, MaxSignatures+1)
	for name, strategy := range map[string]field.ErrorList{
		"made":    modules.Validate(t.Context(), more),
		"changed": modules.ValidateUpdate(t.Context(), more, m),
	} {
		if len(strategy) != 1 || !strings.Contains(strategy[0].Error(), "spec.signatures: Too many") {
			t.Errorf("a module with too many signatures, %s: %v", name, strategy)
		}
	}
}

// Who writes a status must not say what a host loads when it starts, and as whom.
func TestTheCurrentRevisionIsTheHostsToSay(t *testing.T) {
	t.Parallel()
	revision := func(account string) policyv1alpha1.PolicyStatus {
		return policyv1alpha1.PolicyStatus{Current: &policyv1alpha1.PolicyRevision{Module: "a", ServiceAccount: &policyv1alpha1.ServiceAccountReference{Namespace: "default", Name: account}}}
	}
	old, p := &policyv1alpha1.Policy{Status: revision("narrow")}, &policyv1alpha1.Policy{Status: revision("wide")}
	p.Status.Message = "mine"
	policyStatus.PrepareForUpdate(t.Context(), p, old)
	if got := p.Status; got.Current.ServiceAccount.Name != "narrow" || got.Message != "mine" {
		t.Errorf("the status became %+v", got)
	}
}
