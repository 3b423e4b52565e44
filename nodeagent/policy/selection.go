package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// selection is of pods of the cluster; with a port's name, of those where it
// stands for a number; with ranges, of those whose addresses are in them.
type selection struct {
	name forward.Set
	peer
	port   *portName
	ranges []forward.Range
	// by is how many Alloweds name it.
	by int
	// members with how many pods are there.
	members map[forward.Member]int
}

// everyPod selects all.
var everyPod = peer{namespaces: labels.Everything(), pods: labels.Everything()}

// setOf names the set of a selection by what it selects.
func setOf(p peer, port *portName, ranges []forward.Range) forward.Set {
	text := "in " + p.namespace
	if p.namespaces != nil {
		text = "where " + words(p.namespaces)
	}
	text = fmt.Sprintf("%s\x00%s", text, words(p.pods))
	if port != nil {
		text += fmt.Sprintf("\x00%s/%d", port.name, port.protocol)
	}
	if ranges != nil {
		text += fmt.Sprintf("\x00%v", ranges)
	}
	sum := sha256.Sum256([]byte(text))
	return forward.Set(hex.EncodeToString(sum[:10]))
}

// words tell selectors apart: one that selects nothing prints as one of all.
func words(s labels.Selector) string {
	if _, selectable := s.Requirements(); !selectable {
		return "\x00nothing"
	}
	return s.String()
}

// of gives what a pod is in it, in a namespace with some labels.
func (s *selection) of(p *Pod, namespace labels.Set) (out []forward.Member) {
	if s.namespaces == nil {
		if p.Namespace != s.namespace {
			return nil
		}
	} else if !s.namespaces.Empty() && (namespace == nil || !s.namespaces.Matches(namespace)) {
		return nil // also where nothing is known of the namespace yet
	}
	if !s.pods.Matches(labels.Set(p.Labels)) {
		return nil
	}
	for _, a := range p.IPs {
		if s.ranges != nil && !contains(s.ranges, a) {
			continue
		}
		if s.port == nil {
			out = append(out, forward.Member{Addr: a})
			continue
		}
		for _, n := range p.numbers(s.port.name, s.port.protocol) {
			out = append(out, forward.Member{Addr: a, Port: n, Protocol: s.port.protocol})
		}
	}
	return out
}
