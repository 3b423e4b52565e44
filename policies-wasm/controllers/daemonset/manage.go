package daemonset

import (
	"strconv"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// failures on a pod says how many before it failed on its node.
const failures = "berth.dev/failures"

// A failed pod is left alone for longer each time, up to longest; what failed
// longer ago than twice that is forgotten.
const (
	shortest = pods.Second
	longest  = 15 * 60 * pods.Second
)

// tend sees to it that a node has the pods that it should have.
func (s *set) tend(n *node) {
	switch {
	case n.gone:
		for _, p := range n.pods {
			if p.Node == "" {
				s.remove(p) // it would never be bound
			}
		}
	case n.run && len(n.pods) == 0:
		s.make(n, 0)
	case n.stay:
		s.prune(n, s.replaceEnded(n))
	default:
		for _, p := range n.pods {
			s.remove(p)
		}
	}
}

// replaceEnded removes the pods that ended, and puts one in their place where
// nothing else is on the node. It returns those that run.
func (s *set) replaceEnded(n *node) (running []*pod) {
	var failed int64
	removed := 0
	for _, p := range n.pods {
		switch {
		case p.Deleted != 0:
		case p.Phase == "Failed":
			before, wait := s.failed(p)
			if wait > 0 {
				s.later(wait)
				s.wait("failed pod " + p.Name + " on node " + n.name + " is replaced after a pause")
				continue
			}
			failed = max(failed, before+1)
			s.event("Warning", "FailedDaemonPod", "Found failed daemon pod "+p.Namespace+"/"+p.Name+" on node "+n.name+", will try to kill it")
			s.remove(p)
			removed++
		case p.Phase == "Succeeded":
			s.event("Normal", "SucceededDaemonPod", "Found succeeded daemon pod "+p.Namespace+"/"+p.Name+" on node "+n.name+", will try to delete it")
			s.remove(p)
			removed++
		default:
			running = append(running, p)
		}
	}
	if n.run && removed > 0 && removed == len(n.pods) {
		s.make(n, failed)
	}
	return running
}

// failed is how many pods failed before this one, and how long it has to be left
// alone for that.
func (s *set) failed(p *pod) (before, wait int64) {
	text, _ := p.Annotations.Get(failures)
	before, err := strconv.ParseInt(text, 10, 32)
	if err != nil || before <= 0 || !p.updated || s.Now-p.Created > 2*longest {
		return 0, 0
	}
	pause := int64(longest)
	if doublings := before - 1; doublings < 20 {
		pause = min(int64(shortest)<<doublings, longest)
	}
	return before, max(p.Created+pause-s.Now, 0)
}

// prune leaves one running pod on a node, or one of each template where they
// change over.
func (s *set) prune(n *node, running []*pod) {
	if !s.surges() {
		for i := 1; i < len(running); i++ {
			s.remove(running[i])
		}
		return
	}
	if len(running) == 0 && n.run {
		s.make(n, 0)
	}
	if len(running) <= 1 {
		return
	}
	var newer, older *pod
	for _, p := range running {
		hash, _ := p.Labels.Get(revisionLabel)
		switch {
		case hash == s.hash && newer == nil:
			newer = p
		case hash != s.hash && older == nil:
			older = p
		default:
			s.remove(p)
		}
	}
	if newer != nil && older != nil && (!older.Ready || s.available(newer)) {
		s.remove(older)
	}
}

// make creates a pod for a node, unless it has been done.
func (s *set) make(n *node, failed int64) {
	if n.made || len(s.out.Create) >= burst {
		return
	}
	n.made = true
	j := &json.Writer{}
	j.Open('{').Key("apiVersion").Text("v1").Key("kind").Text("Pod")
	j.Key("metadata").Open('{').Key("labels").Open('{').Key(revisionLabel).Text(s.hash)
	j.Member(generationLabel, s.generation).Close('}')
	if failed > 0 {
		j.Key("annotations").Open('{').Key(failures).Text(strconv.FormatInt(failed, 10)).Close('}')
	}
	j.Close('}')
	j.Key("spec").Open('{').Key("tolerations").Value(s.fit.text)
	j.Key("affinity").Open('{').Key("nodeAffinity").Open('{').Key("requiredDuringSchedulingIgnoredDuringExecution").Open('{')
	j.Key("nodeSelectorTerms").Open('[').Open('{').Key("matchFields").Open('[')
	j.Open('{').Key("key").Text("metadata.name").Key("operator").Text("In").Key("values").Open('[').Text(n.name).Close(']').Close('}')
	j.Close(']').Close('}').Close(']').Close('}').Close('}').Close('}').Close('}')
	s.out.Create = append(s.out.Create, reconcile.Creation{From: "spec.template", Object: string(j.Close('}').Bytes()), Count: 1})
}
