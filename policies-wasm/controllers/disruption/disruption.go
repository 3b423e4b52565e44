// Package disruption counts for each PodDisruptionBudget how many pods may be
// evicted.
package disruption

import (
	"errors"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// deletionTimeout is how long an evicted pod may take until it is seen to go.
const deletionTimeout = 120 * pods.Second

func scaled(apiVersion, kind string) reconcile.Kind {
	return reconcile.Kind{APIVersion: apiVersion, Kind: kind, By: abi.ByNamespace, Fields: []string{"spec.replicas"}}
}

func init() {
	sdk.Controller("PodDisruptionBudget", controller{},
		reconcile.Kind{APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Fields: []string{
			"spec.minAvailable", "spec.maxUnavailable", "spec.selector", "status.disruptedPods", "status.conditions",
			"status.currentHealthy", "status.desiredHealthy", "status.expectedPods", "status.observedGeneration",
		}},
		nil,
		sdk.Related(
			reconcile.Kind{APIVersion: "v1", Kind: "Pod", Facts: pods.Facts},
			scaled("apps/v1", "ReplicaSet"), scaled("apps/v1", "Deployment"), scaled("apps/v1", "StatefulSet"), scaled("v1", "ReplicationController"),
		),
		sdk.Describe("Counts for each PodDisruptionBudget how many pods may be evicted."))
}

type controller struct{}

// budget is the parent and its pods.
type budget struct {
	*reconcile.Request
	out  *reconcile.Result
	pods []*reconcile.Object
}

func (controller) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	b := &budget{Request: r, out: &out, pods: r.RelatedOf("Pod")}
	expected, desired, err := b.wanted()
	if err != nil {
		b.warn("CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: "+err.Error())
		b.failed(err.Error())
		return out, nil
	}
	disrupted, until := b.disrupted()
	if len(until) > 0 {
		out.RequeueAfter = time.Duration(max(1, until[0]-r.Now))
	}
	healthy := b.healthy(disrupted)
	b.status(healthy, desired, expected, disrupted)
	return out, nil
}

func (b *budget) warn(reason, message string) {
	b.out.Events = append(b.out.Events, reconcile.Event{Type: "Warning", Reason: reason, Message: message})
}

// wanted are how many pods there should be, and how many of them healthy.
func (b *budget) wanted() (expected, desired int64, err error) {
	unavailable, available := b.Parent.Field("spec.maxUnavailable"), b.Parent.Field("spec.minAvailable")
	n, whole := available.Number()
	switch {
	case !unavailable.IsNull():
		if expected, err = b.scale(); err != nil {
			return 0, 0, err
		}
		may, err := part(unavailable, expected)
		return expected, max(expected-may, 0), err
	case whole:
		return int64(len(b.pods)), int64(n), nil
	case !available.IsNull():
		if expected, err = b.scale(); err != nil {
			return 0, 0, err
		}
		desired, err = part(available, expected)
		return expected, desired, err
	}
	return 0, 0, nil
}

// part is a number, or a percentage of all, rounded up.
func part(c sdk.Config, all int64) (int64, error) {
	if n, ok := c.Number(); ok {
		return int64(n), nil
	}
	text, _ := c.Text()
	percent, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 32)
	if err != nil || !strings.HasSuffix(text, "%") {
		return 0, errors.New("invalid value for IntOrString: " + text)
	}
	return (percent*all + 99) / 100, nil
}

// scale sums what the controllers of the pods want.
func (b *budget) scale() (sum int64, err error) {
	known := map[string]*reconcile.Object{}
	for _, o := range b.Related {
		if o.Kind != "Pod" {
			known[o.UID] = o
		}
	}
	counted, unmanaged := map[string]bool{}, false
	for _, pod := range b.pods {
		uid := pod.Controller()
		if uid == "" {
			unmanaged = true
			continue
		}
		owner := known[uid]
		if owner == nil {
			return 0, errors.New("found no controllers for pod \"" + pod.Name + "\"")
		}
		if above := known[owner.Controller()]; owner.Kind == "ReplicaSet" && above != nil {
			owner = above
		}
		if counted[owner.UID] {
			continue
		}
		counted[owner.UID] = true
		replicas, ok := owner.Field("spec.replicas").Number()
		if !ok {
			replicas = 1
		}
		sum += int64(replicas)
	}
	if unmanaged {
		b.warn("UnmanagedPods", "Pods selected by this PodDisruptionBudget (selector: "+b.Parent.JSON("spec.selector")+") were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.")
	}
	return sum, nil
}

// disrupted are the pods that were evicted and are not seen to go yet, as name
// and time, and when each has to be looked at again, the first one first.
func (b *budget) disrupted() (left map[string]string, until []int64) {
	left = map[string]string{}
	at := b.Parent.Field("status.disruptedPods")
	for _, pod := range b.pods {
		text := at.String(pod.Name, "")
		if text == "" || pod.Deleted != 0 {
			continue
		}
		end := pods.Nanos(text) + deletionTimeout
		if end < b.Now {
			b.out.Events = append(b.out.Events, reconcile.Event{
				Type: "Warning", Reason: "NotDeleted", About: pod.UID,
				Message: "Pod was expected by PDB " + b.Parent.Namespace + "/" + b.Parent.Name + " to be deleted but it wasn't",
			})
			continue
		}
		left[pod.Name] = text
		until = append(until, end)
	}
	sort.Slice(until, func(i, j int) bool { return until[i] < until[j] })
	return left, until
}

func (b *budget) healthy(disrupted map[string]string) (n int64) {
	for _, pod := range b.pods {
		if at := disrupted[pod.Name]; pod.Deleted != 0 || at != "" && pods.Nanos(at)+deletionTimeout > b.Now {
			continue
		}
		if pod.Pod.Ready {
			n++
		}
	}
	return n
}

func (b *budget) status(healthy, desired, expected int64, disrupted map[string]string) {
	allowed := max(healthy-desired, 0)
	if expected <= 0 {
		allowed = 0
	}
	j := (&json.Writer{}).Open('{').Key("observedGeneration").Int(b.Parent.Generation)
	if len(disrupted) > 0 {
		names := make([]string, 0, len(disrupted))
		for name := range disrupted {
			names = append(names, name)
		}
		sort.Strings(names)
		j.Key("disruptedPods").Open('{')
		for _, name := range names {
			j.Key(name).Text(disrupted[name])
		}
		j.Close('}')
	}
	j.Key("disruptionsAllowed").Int(allowed).Key("currentHealthy").Int(healthy).Key("desiredHealthy").Int(desired).Key("expectedPods").Int(expected)
	if allowed > 0 {
		b.condition(j, b.Parent.Generation, "True", "SufficientPods", "")
	} else {
		b.condition(j, b.Parent.Generation, "False", "InsufficientPods", "")
		b.out.Why = []string{"no pod may be evicted: " + strconv.FormatInt(healthy, 10) + " of " + strconv.FormatInt(expected, 10) + " pods are healthy, and " + strconv.FormatInt(desired, 10) + " have to be"}
	}
	if len(b.pods) == 0 && !b.counted(expected) {
		b.out.Events = append(b.out.Events, reconcile.Event{Type: "Normal", Reason: "NoPods", Message: "No matching pods found"})
	}
	b.out.Status = string(j.Close('}').Bytes())
}

// counted tells whether the parent's status is of this generation already.
func (b *budget) counted(expected int64) bool {
	seen, _ := b.Parent.Field("status.observedGeneration").Number()
	had, _ := b.Parent.Field("status.expectedPods").Number()
	return int64(seen) == b.Parent.Generation && int64(had) == expected
}

// failed allows nothing while the budget cannot be worked out.
func (b *budget) failed(message string) {
	j := (&json.Writer{}).Open('{')
	for _, name := range [...]string{"observedGeneration", "currentHealthy", "desiredHealthy", "expectedPods", "disruptedPods"} {
		if have := b.Parent.JSON("status." + name); have != "" && have != "null" {
			j.Key(name).Value(have)
		}
	}
	j.Key("disruptionsAllowed").Int(0)
	seen, _ := b.Parent.Field("status.observedGeneration").Number()
	b.condition(j, int64(seen), "False", "SyncFailed", message)
	b.out.Status = string(j.Close('}').Bytes())
	b.out.RequeueAfter = 10 * pods.Second
}

// condition writes the conditions, DisruptionAllowed among them, about a generation;
// its time is that of its last change.
func (b *budget) condition(j *json.Writer, generation int64, status, reason, message string) {
	since := pods.Time(b.Now)
	j.Key("conditions").Open('[')
	for _, c := range b.Parent.Field("status.conditions").Items() {
		if c.String("type", "") != "DisruptionAllowed" {
			j.Value(c.JSON())
			continue
		}
		if c.String("status", "") == status {
			since = c.String("lastTransitionTime", since)
		}
	}
	j.Open('{').Key("type").Text("DisruptionAllowed").Key("status").Text(status).Key("observedGeneration").Int(generation)
	j.Key("lastTransitionTime").Text(since).Key("reason").Text(reason).Key("message").Text(message).Close('}').Close(']')
}
