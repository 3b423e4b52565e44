package trial

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Variation is a Policy as it might be.
type Variation struct {
	// Name is that of the Policy, which need not be there yet.
	Name string `json:"name"`
	// Object is the Policy as it would be; without it, it is as it is.
	Object *v1alpha1.Policy `json:"-"`
	// Wasm is its module; without it Module names one that was uploaded, and
	// without that it stays as it is.
	Wasm []byte `json:"wasm,omitempty"`
	// Signatures are of Wasm, for hosts that trust some keys only.
	Signatures []v1alpha1.Signature `json:"signatures,omitempty"`
	Module     string               `json:"module,omitempty"`
	// Entry, Config and Mode replace those of the Policy where they are given.
	Entry  string          `json:"entry,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`
	Mode   v1alpha1.Mode   `json:"mode,omitempty"`
	// FailureMode and Limits do, too.
	FailureMode v1alpha1.FailureMode   `json:"failureMode,omitempty"`
	Limits      *v1alpha1.PolicyLimits `json:"limits,omitempty"`
	// Profile is what a Policy that no profile names would join, with Weight.
	Profile string `json:"profile,omitempty"`
	Weight  int32  `json:"weight,omitempty"`
}

// Apply is the Policy as it would be, given how it is; nil if there is none.
func (v *Variation) Apply(is *v1alpha1.Policy) *v1alpha1.Policy {
	p := &v1alpha1.Policy{}
	switch {
	case v.Object != nil:
		p = v.Object.DeepCopy()
	case is != nil:
		p = is.DeepCopy()
	}
	p.Name, p.Spec.Canary = v.Name, nil
	if v.Mode != "" {
		p.Spec.Mode = v.Mode
	}
	if v.Entry != "" {
		p.Spec.Entry = v.Entry
	}
	if v.FailureMode != "" {
		p.Spec.FailureMode = v.FailureMode
	}
	if v.Limits != nil {
		p.Spec.Limits = v.Limits
	}
	if v.Config != nil {
		p.Spec.Config = &runtime.RawExtension{Raw: v.Config}
	}
	return p
}

// Join puts a policy that no profile names into the one that it would join.
func (v *Variation) Join(profiles []*v1alpha1.Profile, kind string) error {
	if v.Profile == "" || kind != abi.KindPredicate && kind != abi.KindPriority {
		return nil
	}
	for i, p := range profiles {
		if p.Name != v.Profile {
			continue
		}
		if slices.Contains(p.Names(), v.Name) {
			return nil
		}
		p = p.DeepCopy()
		if kind == abi.KindPredicate {
			p.Spec.Predicates = append(p.Spec.Predicates, v1alpha1.ProfilePredicate{Name: v.Name})
		} else {
			p.Spec.Priorities = append(p.Spec.Priorities, v1alpha1.ProfilePriority{Name: v.Name, Weight: v.Weight})
		}
		profiles[i] = p
		return nil
	}
	return fmt.Errorf("%w: there is no profile %s", module.ErrRefused, v.Profile)
}
