package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Key covers what a Policy's program of that module is made from.
func Key(p *v1alpha1.Policy, module string) string {
	return hash(v1alpha1.PolicySpec{Module: module, Entry: p.Spec.Entry, Config: p.Spec.Config, Limits: p.Spec.Limits, ServiceAccount: p.Spec.ServiceAccount})
}

// Trial covers what the trial of a Policy's canary is about.
func Trial(p *v1alpha1.Policy) string {
	return hash(v1alpha1.PolicySpec{Canary: p.Spec.Canary, Entry: p.Spec.Entry, Config: p.Spec.Config, Limits: p.Spec.Limits, ServiceAccount: p.Spec.ServiceAccount})[:16]
}

func hash(spec v1alpha1.PolicySpec) string {
	data, err := json.Marshal(spec)
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Revision names what a Policy's program is made of.
func Revision(p *v1alpha1.Policy, digest string) v1alpha1.PolicyRevision {
	return v1alpha1.PolicyRevision{
		Module: v1alpha1.ModuleName(digest), Entry: p.Spec.Entry, Config: p.Spec.Config.DeepCopy(), ServiceAccount: p.Spec.ServiceAccount.DeepCopy(),
	}
}
