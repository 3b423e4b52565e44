package rollout

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// maxHistory is how many previous revisions a status lists, maxTried how many
// of them may be canaries that never were more, lest these push out all that
// one can go back to.
const (
	maxHistory = 10
	maxTried   = 5
)

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

// record tells, from the status that was and what is now, which revision decides
// and which did. It goes by the objects alone, so a restart does not confuse it.
func record(was *v1alpha1.PolicyStatus, is v1alpha1.PolicyRevision, canary *v1alpha1.CanaryStatus, now metav1.Time) ([]v1alpha1.PolicyRevision, *v1alpha1.PolicyRevision) {
	history := was.History
	tried, promoted := canaryLeft(was.Canary, canary, &is)
	if tried != nil {
		history = prepend(history, *tried, now)
	}
	if was.Current != nil && SameRevision(was.Current, &is) {
		return history, actingAs(was.Current, is.ServiceAccount)
	}
	is.Since, is.Reason = now, came(&is, was, promoted)
	if was.Current != nil {
		former := *was.Current
		former.Left = v1alpha1.LeftReplaced
		if is.Reason == v1alpha1.CameRolledBack {
			former.Left = v1alpha1.LeftRolledBack
		}
		history = prepend(history, former, now)
	}
	return history, &is
}

// actingAs is a revision under an account, which may change while it decides.
func actingAs(r *v1alpha1.PolicyRevision, account *v1alpha1.ServiceAccountReference) *v1alpha1.PolicyRevision {
	if equality.Semantic.DeepEqual(r.ServiceAccount, account) {
		return r
	}
	r = r.DeepCopy()
	r.ServiceAccount = account.DeepCopy()
	return r
}

// canaryLeft is the entry of a canary that has come to its end between two
// statuses, nil if none has, or if it was promoted: then it is what is live.
func canaryLeft(was, is *v1alpha1.CanaryStatus, live *v1alpha1.PolicyRevision) (tried *v1alpha1.PolicyRevision, promoted bool) {
	same := was != nil && is != nil && was.Trial == is.Trial
	switch {
	case !runs(was):
		if is == nil || is.Phase != v1alpha1.PhaseRolledBack || same && was.Phase != v1alpha1.PhaseWaiting {
			return nil, false
		}
		return autoRolledBack(is, is, live), false // it never ran
	case is == nil && sameModule(was.Module, live.Module):
		return nil, true
	case runs(is) && (same || sameModule(was.Module, is.Module)):
		return nil, false // one whose share or config is changed goes on
	case same:
		return autoRolledBack(is, was, live), false
	}
	return canaryRevision(was, live, v1alpha1.LeftRolledBack, ""), false
}

func runs(c *v1alpha1.CanaryStatus) bool { return c != nil && c.Phase == v1alpha1.PhaseRunning }

func autoRolledBack(is, began *v1alpha1.CanaryStatus, live *v1alpha1.PolicyRevision) *v1alpha1.PolicyRevision {
	return canaryRevision(began, live, v1alpha1.LeftAutoRolledBack, is.Reason+": "+is.Message)
}

func canaryRevision(c *v1alpha1.CanaryStatus, live *v1alpha1.PolicyRevision, left, message string) *v1alpha1.PolicyRevision {
	return &v1alpha1.PolicyRevision{
		Module: c.Module, Entry: live.Entry, Config: live.Config, ServiceAccount: live.ServiceAccount, Since: c.Since,
		Reason: v1alpha1.CameCanary, Left: left, Message: message,
	}
}

// prepend puts a revision before a history, and leaves the newest of it.
func prepend(history []v1alpha1.PolicyRevision, r v1alpha1.PolicyRevision, now metav1.Time) []v1alpha1.PolicyRevision {
	r.Until = &now
	tried := 0
	kept := slices.DeleteFunc(append([]v1alpha1.PolicyRevision{r}, history...), func(r v1alpha1.PolicyRevision) bool {
		if r.Reason != v1alpha1.CameCanary {
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
		return v1alpha1.CamePromoted
	}
	if left := lastLeft(was.History, is); left == v1alpha1.LeftReplaced {
		return v1alpha1.CameRolledBack
	}
	return v1alpha1.CamePushed // it is new, or was taken back itself: somebody goes forth again
}

// Previous is the revision that a roll-back goes to: the newest that was replaced,
// and not taken back since. Nil is none.
func Previous(s *v1alpha1.PolicyStatus) *v1alpha1.PolicyRevision {
	for i := range s.History {
		r := &s.History[i]
		if s.Current != nil && SameRevision(s.Current, r) {
			continue
		}
		if r.Left == v1alpha1.LeftReplaced && lastLeft(s.History, r) == v1alpha1.LeftReplaced {
			return r
		}
	}
	return nil
}

// lastLeft is how a revision left when it decided last, empty if it never did.
func lastLeft(history []v1alpha1.PolicyRevision, r *v1alpha1.PolicyRevision) string {
	for i := range history {
		if former := &history[i]; former.Reason != v1alpha1.CameCanary && SameRevision(former, r) {
			return former.Left
		}
	}
	return ""
}

// TakenBack says whether somebody went back from a module when it decided last.
func TakenBack(s *v1alpha1.PolicyStatus, module string) bool {
	if s.Current != nil && sameModule(s.Current.Module, module) {
		return false
	}
	for i := range s.History {
		if former := &s.History[i]; former.Reason != v1alpha1.CameCanary && sameModule(former.Module, module) {
			return former.Left == v1alpha1.LeftRolledBack
		}
	}
	return false
}

// sameModule compares names, each of which may be a digest.
func sameModule(a, b string) bool {
	x, errX := v1alpha1.Digest(a)
	y, errY := v1alpha1.Digest(b)
	return errX == nil && errY == nil && x == y
}
