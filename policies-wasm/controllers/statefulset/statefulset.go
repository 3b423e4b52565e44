package statefulset

import (
	"errors"
	"strconv"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/policies-wasm/controllers/revision"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Labels of a pod.
const (
	nameLabel     = "statefulset.kubernetes.io/pod-name"
	indexLabel    = "apps.kubernetes.io/pod-index"
	revisionLabel = "controller-revision-hash"
)

// replaceBroken on a StatefulSet lets its pods of older revisions be replaced
// that were never ready.
const replaceBroken = "berth.dev/replace-broken"

// maxBatch is how many pods a set of policy Parallel handles side by side, and
// how many objects one answer creates at most; a young set creates least.
const (
	maxBatch = 500
	least    = 32
)

func init() {
	sdk.Controller("StatefulSet", controller{},
		reconcile.Kind{
			APIVersion: "apps/v1", Kind: "StatefulSet", Fields: []string{
				"spec.replicas", "spec.minReadySeconds", "spec.selector", "spec.serviceName", "spec.ordinals",
				"spec.podManagementPolicy", "spec.updateStrategy", "spec.revisionHistoryLimit",
				"spec.volumeClaimTemplates", "spec.persistentVolumeClaimRetentionPolicy",
				"spec.template.metadata.labels", "spec.template.spec.volumes", "status",
			},
			Facts: []string{"template.revision"},
		},
		[]reconcile.Kind{
			{
				APIVersion: "v1", Kind: "Pod", Fields: []string{"status.startTime"}, Facts: append([]string{"pod.claims"}, pods.Facts...),
				Writes: []string{"create", "patch", "delete"},
			},
			revision.Kind,
		},
		sdk.Related(reconcile.Kind{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Fields: []string{"metadata.ownerReferences"},
			By: "ordinal", Path: "spec.volumeClaimTemplates", Writes: []string{"create", "patch"},
		}),
		sdk.Describe("Keeps as many pods with names and volumes of their own as a StatefulSet says."))
}

type controller struct{}

// set is the parent, read once, and the answer about it.
//
// It is large because each rule of Kubernetes' StatefulSets is a method of its
// own over what was read once.
type set struct {
	*reconcile.Request
	out reconcile.Result

	replicas, start int
	minReady        int64
	parallel        bool
	strategy        strategy
	selector        facts.Selector
	templates       []claimTemplate
	claims          map[string]*claim
	// deleteGone and deleteScaled say what becomes of claims when the set is
	// deleted, and when it is scaled down.
	deleteGone, deleteScaled bool

	was             status
	current, update version
	revisions       []revision.Revision
	collisions      int64

	// most is how many creations fit the answer: the fuel of a question grows with
	// how much there is already.
	most int

	// pods are the set's, members those with an ordinal that it wants, each at its
	// place, and condemned the others, the highest ordinal first.
	pods, members, condemned []*replica
	// left is how many pods are missing after the last member.
	left int
}

// strategy is how pods get to a newer revision.
type strategy struct {
	rolling, onDelete bool
	partition         int
	maxUnavailable    sdk.Config
}

func (controller) Reconcile(r *reconcile.Request) (reconcile.Result, error) {
	s := &set{Request: r, most: min(max(least, (len(r.Children)+len(r.Related))/4), maxBatch)}
	if err := s.read(); err != nil {
		return reconcile.Result{}, err
	}
	s.claimPods()
	if !s.history() {
		return s.out, nil
	}
	s.sort()
	now := s.count(s.pods)
	if r.Parent.Deleted == 0 {
		now = s.work()
	}
	s.writeStatus(now)
	s.truncate()
	s.again(now)
	return s.out, nil
}

func (s *set) read() (err error) {
	p := &s.Parent
	s.replicas, s.minReady = 1, number(p.Field("spec.minReadySeconds"))
	if n, ok := p.Field("spec.replicas").Number(); ok {
		s.replicas = int(n)
	}
	s.start = int(number(p.Field("spec.ordinals").Object("start")))
	policy, _ := p.Field("spec.podManagementPolicy").Text()
	s.parallel = policy == "Parallel"
	if s.selector, err = facts.LabelSelector(p.Field("spec.selector"), s.Symbols); err != nil {
		return errors.New("spec.selector: " + err.Error())
	}
	if len(s.selector.Reqs) == 0 {
		s.selector.Present = false // an empty one would match all pods
	}
	s.readStrategy(p.Field("spec.updateStrategy"))
	retention := p.Field("spec.persistentVolumeClaimRetentionPolicy")
	s.deleteGone = retention.String("whenDeleted", "") == "Delete"
	s.deleteScaled = retention.String("whenScaled", "") == "Delete"
	s.readClaims()
	s.was = readStatus(p.Field("status"))
	return nil
}

func (s *set) readStrategy(c sdk.Config) {
	kind := c.String("type", "")
	s.strategy = strategy{rolling: kind == "RollingUpdate", onDelete: kind == "OnDelete"}
	rolling := c.Object("rollingUpdate")
	s.strategy.partition = int(number(rolling.Object("partition")))
	s.strategy.maxUnavailable = rolling.Object("maxUnavailable")
}

func number(c sdk.Config) int64 {
	n, _ := c.Number()
	return int64(n)
}

// work does what is due, as far as the order of the pods allows, and counts.
func (s *set) work() counts {
	stopped := s.forAll(s.members, s.member) || s.forAll(s.condemned, s.keepClaims) || s.forAll(s.condemned, s.condemn)
	now := s.count(s.members, s.condemned)
	if stopped || s.strategy.onDelete {
		return now
	}
	now.current -= s.roll()
	return now
}

// forAll handles pods one after the other until one is to be waited for. With
// policy Parallel nothing is waited for, and only what fails keeps back those
// that are not in its batch.
func (s *set) forAll(list []*replica, handle func(*replica) (wait, failed bool)) (stopped bool) {
	batch, left := 1, 1
	for _, r := range list {
		if left == 0 {
			if stopped {
				return true
			}
			batch = min(2*batch, maxBatch)
			left = batch
		}
		left--
		wait, failed := handle(r)
		if stopped = stopped || failed; (wait || failed) && !s.parallel {
			return true
		}
	}
	return stopped
}

// member brings the pod of one ordinal about, and says whether those after it
// have to wait.
func (s *set) member(r *replica) (wait, failed bool) {
	switch {
	case r.ended() || s.broken(r):
		s.remove(r)
		s.out.Step = true // one that takes its place
		return true, false
	case r.fresh():
		if s.stale(r) {
			s.wait("the claims of pod " + r.Name + " belong to a pod that is gone, and have to go first")
			return true, false
		}
		return !s.parallel, !s.create(r)
	case r.Phase == "Pending":
		if !s.createClaims(r, "") {
			return true, true
		}
		s.retain(r)
	}
	if !s.parallel && !s.settled(r) {
		return true, false
	}
	return false, !s.conform(r)
}

// settled tells whether pods after this one need not wait for it.
func (s *set) settled(r *replica) bool {
	switch {
	case r.Deleted != 0:
		s.wait("pod " + r.Name + " has to be gone first")
	case !r.runningAndReady():
		s.wait("pod " + r.Name + " has to be Running and Ready first")
	case !s.available(r):
		s.wait("pod " + r.Name + " has to be ready for " + strconv.FormatInt(s.minReady, 10) + " seconds first")
	default:
		return true
	}
	return false
}

// condemn takes one pod away that is not wanted any more.
func (s *set) condemn(r *replica) (wait, failed bool) {
	if r.Deleted != 0 {
		if !s.parallel {
			s.settled(r)
		}
		return true, false
	}
	if !s.parallel && r != s.firstUnavailable() && !s.settled(r) {
		return true, false
	}
	s.remove(r)
	return true, false
}

// firstUnavailable is the pod with the lowest ordinal that is missing or not yet
// available.
func (s *set) firstUnavailable() *replica {
	for _, r := range s.members {
		if s.unavailable(r) {
			return r
		}
	}
	for i := len(s.condemned) - 1; i >= 0; i-- {
		if s.unavailable(s.condemned[i]) {
			return s.condemned[i]
		}
	}
	return nil
}

// roll takes pods of other revisions away, from the highest ordinal down, and
// says how many.
func (s *set) roll() (gone int64) {
	if !s.strategy.maxUnavailable.IsNull() {
		return s.rollMany()
	}
	for i := len(s.members) - 1; i >= s.strategy.partition; i-- {
		r := s.members[i]
		if s.outdated(r) {
			s.remove(r)
			s.wait("pod " + r.Name + " is replaced by one of revision " + s.update.name)
			return 1
		}
		if s.unavailable(r) {
			s.wait("pod " + r.Name + " has to be available before the next one gets revision " + s.update.name)
			return 0
		}
	}
	return 0
}

// outdated tells whether the pod is there, to stay, and not of the newest
// revision.
func (s *set) outdated(r *replica) bool {
	return !r.fresh() && r.Deleted == 0 && r.revision() != s.update.name
}

// rollMany is roll of a set that lets more than one pod be unavailable.
func (s *set) rollMany() (gone int64) {
	left := scaled(s.strategy.maxUnavailable, s.replicas) - int64(s.left)
	for _, r := range s.members {
		if s.unavailable(r) {
			left--
		}
	}
	for i := len(s.members) - 1; i >= s.strategy.partition && gone < left; i-- {
		if r := s.members[i]; s.outdated(r) {
			s.remove(r)
			gone++
		}
	}
	return gone
}

// scaled is a number, or a percentage of all rounded down, and 1 at least.
func scaled(c sdk.Config, all int) int64 {
	if n, ok := c.Number(); ok {
		return max(int64(n), 1)
	}
	text, _ := c.Text()
	if text == "" || text[len(text)-1] != '%' {
		return 1
	}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 32)
	if err != nil {
		return 1
	}
	return max(n*int64(all)/100, 1)
}

// remove deletes a pod, once.
func (s *set) remove(r *replica) {
	if r.Deleted == 0 {
		s.out.Delete = append(s.out.Delete, reconcile.Deletion{UID: r.UID, Success: s.told("Delete", r) + " successful"})
	}
}

// told is the beginning of an event's message.
func (s *set) told(verb string, r *replica) string {
	return verb + " Pod " + r.Name + " in StatefulSet " + s.Parent.Name
}

func (s *set) event(kind, reason, message string) {
	const most = 60 // the host takes 64
	if len(s.out.Events) < most {
		s.out.Events = append(s.out.Events, reconcile.Event{Type: kind, Reason: reason, Message: message})
	}
}

// wait says what the set waits for; what is named first is what matters.
func (s *set) wait(what string) {
	const most = 3
	if len(s.out.Why) < most {
		s.out.Why = append(s.out.Why, what)
	}
}
