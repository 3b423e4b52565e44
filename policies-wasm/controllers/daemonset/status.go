package daemonset

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
)

// status is what a status says that the set writes.
type status struct {
	current, misscheduled, desired, ready, updated, available int64
	generation, collisions                                    int64
	collided                                                  bool
}

func readStatus(c sdk.Config) status {
	return status{
		current: number(c.Object("currentNumberScheduled")), misscheduled: number(c.Object("numberMisscheduled")),
		desired: number(c.Object("desiredNumberScheduled")), ready: number(c.Object("numberReady")),
		updated: number(c.Object("updatedNumberScheduled")), available: number(c.Object("numberAvailable")),
		generation: number(c.Object("observedGeneration")), collisions: number(c.Object("collisionCount")),
		collided: c.Has("collisionCount"),
	}
}

// count counts, of each node, its oldest pod.
func (s *set) count() status {
	now := status{generation: s.was.generation, collisions: s.was.collisions, collided: s.was.collided}
	for _, n := range s.nodes {
		if !n.run {
			if len(n.pods) > 0 && !n.gone {
				now.misscheduled++
			}
			continue
		}
		now.desired++
		if len(n.pods) == 0 {
			continue
		}
		now.current++
		p := n.pods[0]
		if p.updated {
			now.updated++
		}
		if !p.Ready {
			continue
		}
		now.ready++
		if ok, wait := p.Available(s.minReady, s.Now); ok {
			now.available++
		} else if wait > 0 {
			s.later(wait)
		}
	}
	return now
}

// writeStatus writes the status if it says something new.
func (s *set) writeStatus() {
	now := s.count()
	unavailable := number(s.Parent.Field("status").Object("numberUnavailable"))
	if now == s.was && s.was.generation >= s.Parent.Generation && unavailable == now.desired-now.available {
		return
	}
	now.generation = s.Parent.Generation
	s.out.Status = now.json(s)
}

// json is the status with what others wrote there.
func (t *status) json(s *set) string {
	j := &json.Writer{}
	j.Open('{').Key("currentNumberScheduled").Int(t.current).Key("numberMisscheduled").Int(t.misscheduled)
	j.Key("desiredNumberScheduled").Int(t.desired).Key("numberReady").Int(t.ready).Key("observedGeneration").Int(t.generation)
	j.Key("updatedNumberScheduled").Int(t.updated).Key("numberAvailable").Int(t.available)
	j.Key("numberUnavailable").Int(t.desired - t.available)
	if t.collided || t.collisions > 0 {
		j.Key("collisionCount").Int(t.collisions)
	}
	if conditions := s.Parent.Field("status").Object("conditions"); !conditions.IsNull() {
		j.Key("conditions").Value(conditions.JSON())
	}
	return string(j.Close('}').Bytes())
}
