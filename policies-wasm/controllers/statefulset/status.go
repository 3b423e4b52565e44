package statefulset

import (
	"time"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
)

// counts are those of a status.
type counts struct{ replicas, ready, available, current, updated int64 }

// status is what a status says that the set goes by.
type status struct {
	counts
	generation, collisions          int64
	currentRevision, updateRevision string
}

func readStatus(c sdk.Config) status {
	return status{
		counts: counts{
			number(c.Object("replicas")), number(c.Object("readyReplicas")), number(c.Object("availableReplicas")),
			number(c.Object("currentReplicas")), number(c.Object("updatedReplicas")),
		},
		generation: number(c.Object("observedGeneration")), collisions: number(c.Object("collisionCount")),
		currentRevision: c.String("currentRevision", ""), updateRevision: c.String("updateRevision", ""),
	}
}

// count counts the pods that are there.
func (s *set) count(lists ...[]*replica) (n counts) {
	for _, list := range lists {
		for _, r := range list {
			if r.fresh() {
				continue
			}
			n.replicas++
			if r.runningAndReady() {
				n.ready++
				if s.available(r) {
					n.available++
				}
			}
			if r.Deleted != 0 {
				continue
			}
			if r.revision() == s.current.name {
				n.current++
			}
			if r.revision() == s.update.name {
				n.updated++
			}
		}
	}
	return n
}

// writeStatus writes the status if it says something new. An update is complete
// when all pods are of the newest revision and ready.
func (s *set) writeStatus(n counts) {
	all := int64(s.replicas)
	now := status{n, s.Parent.Generation, s.collisions, s.current.name, s.update.name}
	if s.strategy.rolling && n.updated == all && n.ready == all && n.replicas == all {
		now.current, now.currentRevision = n.updated, s.update.name
		s.out.Step = s.out.Step || s.current.name != s.update.name // the one before may be beyond what is kept
	}
	same := now
	same.generation, same.collisions = s.was.generation, s.was.collisions
	if same == s.was && now.generation <= s.was.generation && now.collisions == s.was.collisions {
		return
	}
	s.out.Status = now.json()
}

func (now *status) json() string {
	j := &json.Writer{}
	j.Open('{').Key("observedGeneration").Int(now.generation).Key("replicas").Int(now.replicas)
	j.Key("readyReplicas").Int(now.ready).Key("availableReplicas").Int(now.available)
	j.Key("currentReplicas").Int(now.current).Key("updatedReplicas").Int(now.updated)
	j.Key("currentRevision").Text(now.currentRevision).Key("updateRevision").Text(now.updateRevision)
	return string(j.Key("collisionCount").Int(now.collisions).Close('}').Bytes())
}

// again asks for another look when the next pod becomes available.
func (s *set) again(n counts) {
	if s.minReady == 0 || n.ready == n.available {
		return
	}
	next := s.minReady * pods.Second
	for _, r := range s.pods {
		if _, wait := r.Available(s.minReady, s.Now); wait > 0 {
			next = min(next, wait)
		}
	}
	s.out.RequeueAfter = time.Duration(next)
}
