package policy

import (
	"bytes"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// How a revision came.
const (
	CamePushed     = "Pushed"
	CamePromoted   = "Promoted"
	CameRolledBack = "RolledBack"
	CameCanary     = "Canary"
)

// How a revision left.
const (
	LeftReplaced       = "Replaced"
	LeftRolledBack     = "RolledBack"
	LeftAutoRolledBack = "AutoRolledBack"
)

// maxHistory is how many former revisions a status lists, maxTried how many
// of them may be canaries that never were more, lest these push out all that
// one can go back to.
const (
	maxHistory = 10
	maxTried   = 5
)

// revisionOf names what a Policy's program is made of.
func revisionOf(p *v1alpha1.Policy, digest string) v1alpha1.PolicyRevision {
	return v1alpha1.PolicyRevision{Module: ModuleName(digest), Entry: p.Spec.Entry, Config: p.Spec.Config.DeepCopy()}
}

// SameRevision says whether two revisions are the same module, entry and config.
func SameRevision(a, b *v1alpha1.PolicyRevision) bool {
	return a.Module == b.Module && a.Entry == b.Entry && bytes.Equal(configOf(a), configOf(b))
}

func configOf(r *v1alpha1.PolicyRevision) []byte {
	if r.Config == nil {
		return nil
	}
	return r.Config.Raw
}

func rawOf(config []byte) *runtime.RawExtension { return &runtime.RawExtension{Raw: config} }

// chronicle tells, from what was and what is now, which revision decides and
// which did. It goes by the objects alone, so a restart does not confuse it.
func recordHistory(one *live, was *v1alpha1.PolicyStatus, trial *v1alpha1.CanaryStatus, now metav1.Time) ([]v1alpha1.PolicyRevision, *v1alpha1.PolicyRevision) {
	history := was.History
	record := func(r v1alpha1.PolicyRevision) {
		r.Until = &now
		history = bounded(append([]v1alpha1.PolicyRevision{r}, history...))
	}
	is := one.revision
	promoted := false
	if c := was.Canary; c != nil && c.Phase == PhaseRunning && (trial == nil || trial.Trial != c.Trial || trial.Phase != PhaseRunning) {
		promoted = trial == nil && sameModule(c.Module, is.Module)
		tried := v1alpha1.PolicyRevision{Module: c.Module, Entry: is.Entry, Config: is.Config, Since: c.Since, Reason: CameCanary, Left: LeftRolledBack}
		if trial != nil && trial.Trial == c.Trial {
			tried.Left, tried.Message = LeftAutoRolledBack, trial.Reason+": "+trial.Message
		}
		// One whose share or config is changed goes on.
		goesOn := trial != nil && trial.Phase == PhaseRunning && sameModule(c.Module, trial.Module)
		if !promoted && !goesOn {
			record(tried)
		}
	} else if trial != nil && trial.Phase == PhaseRolledBack && (c == nil || c.Trial != trial.Trial || c.Phase == PhaseWaiting) {
		// It never ran.
		record(v1alpha1.PolicyRevision{Module: trial.Module, Entry: is.Entry, Config: is.Config, Since: trial.Since, Reason: CameCanary, Left: LeftAutoRolledBack, Message: trial.Reason + ": " + trial.Message})
	}
	if was.Current != nil && SameRevision(was.Current, &is) {
		return history, was.Current
	}
	is.Since, is.Reason = now, came(&is, was, promoted)
	if was.Current != nil {
		former := *was.Current
		former.Left = LeftReplaced
		if is.Reason == CameRolledBack {
			former.Left = LeftRolledBack
		}
		record(former)
	}
	return history, &is
}

// bounded leaves the newest of a history.
func bounded(history []v1alpha1.PolicyRevision) []v1alpha1.PolicyRevision {
	tried := 0
	kept := slices.DeleteFunc(history, func(r v1alpha1.PolicyRevision) bool {
		if r.Reason != CameCanary {
			return false
		}
		tried++
		return tried > maxTried
	})
	return kept[:min(len(kept), maxHistory)]
}

// came says how a revision came to be live.
func came(is *v1alpha1.PolicyRevision, was *v1alpha1.PolicyStatus, promoted bool) string {
	if promoted {
		return CamePromoted
	}
	for i := range was.History {
		r := &was.History[i]
		if r.Reason == CameCanary || !SameRevision(r, is) {
			continue
		}
		if r.Left == LeftReplaced {
			return CameRolledBack
		}
		break // it was taken back itself: somebody goes forth again
	}
	return CamePushed
}

// sameModule compares names, each of which may be a digest.
func sameModule(a, b string) bool {
	x, errX := Digest(a)
	y, errY := Digest(b)
	return errX == nil && errY == nil && x == y
}
