package daemonset

import (
	"strconv"

	"github.com/berth-dev/berth/sdk"
)

// surges tells whether a node may have two pods at a time.
func (s *set) surges() bool { return s.strategy.rolling && scaled(s.strategy.maxSurge, 1) > 0 }

// scaled is a number, or a percentage of all rounded up.
func scaled(c sdk.Config, all int) int {
	if n, ok := c.Number(); ok {
		return int(n)
	}
	text, _ := c.Text()
	if text == "" || text[len(text)-1] != '%' {
		return 0
	}
	n, err := strconv.Atoi(text[:len(text)-1])
	if err != nil {
		return 0
	}
	return (n*all + 99) / 100
}

// roll brings pods to the newest template.
func (s *set) roll() {
	wanted := 0
	for _, n := range s.nodes {
		if n.run {
			wanted++
		}
	}
	unavailable, surge := scaled(s.strategy.maxUnavailable, wanted), scaled(s.strategy.maxSurge, wanted)
	if wanted > 0 && unavailable == 0 && surge == 0 {
		unavailable = 1
	}
	if surge == 0 {
		s.replace(unavailable)
	} else {
		s.surge(surge, wanted)
	}
}

// pair finds the newer and the older pod of a node; ok is false where there are
// more, which the next round prunes.
func (n *node) pair() (newer, older *pod, ok bool) {
	for _, p := range n.pods {
		at := &older
		if p.updated {
			at = &newer
		}
		switch {
		case p.Deleted != 0:
		case *at != nil:
			return nil, nil, false
		default:
			*at = p
		}
	}
	return newer, older, true
}

// replace removes older pods that are not available, and as many of the others
// as may be missing.
func (s *set) replace(maxUnavailable int) {
	unavailable := 0
	var broken, candidates []*pod
	for _, n := range s.nodes {
		if !n.run && len(n.pods) == 0 {
			continue
		}
		newer, older, ok := n.pair()
		switch {
		case !ok, (newer == nil) == (older == nil):
			unavailable++
		case newer != nil:
			if !s.available(newer) {
				unavailable++
			}
		case !s.available(older):
			broken = append(broken, older)
			unavailable++
		default:
			candidates = append(candidates, older)
		}
	}
	for _, p := range broken {
		s.remove(p)
	}
	left := min(max(maxUnavailable-unavailable, 0), len(candidates))
	for _, p := range candidates[:left] {
		s.remove(p)
	}
	if rest := len(candidates) - left; rest > 0 {
		s.wait(strconv.Itoa(rest) + " pods are of an older template, and " + strconv.Itoa(maxUnavailable) + " may be unavailable at a time")
	}
}

// surge makes newer pods beside older ones, and removes the older when the newer
// are available.
func (s *set) surge(maxSurge, wanted int) {
	var all surging
	for _, n := range s.nodes {
		newer, older, ok := n.pair()
		if !ok {
			all.surging++
			continue
		}
		if older != nil && s.available(older) || older == nil && newer != nil && s.available(newer) {
			all.available++
		}
		if older != nil && (newer != nil || !n.gone) {
			s.pass(&all, n, newer, older)
		}
	}
	for _, p := range all.misplaced[:min(max(all.available-wanted, 0), len(all.misplaced))] {
		s.remove(p)
	}
	left := min(max(maxSurge-all.surging, 0), len(all.candidates))
	for _, n := range append(all.broken, all.candidates[:left]...) {
		s.make(n, 0)
	}
	if rest := len(all.candidates) - left; rest > 0 {
		s.wait(strconv.Itoa(rest) + " pods are of an older template, and " + strconv.Itoa(maxSurge) + " may be made beside them at a time")
	}
}

// surging tells the nodes of a surge apart by what is to be done there.
type surging struct {
	surging, available int
	misplaced          []*pod
	broken, candidates []*node
}

// pass looks at a node with an older pod, which goes where a newer is available or
// nobody would miss it.
func (s *set) pass(all *surging, n *node, newer, older *pod) {
	switch {
	case newer != nil && s.available(newer), newer == nil && !s.available(older) && !n.run:
		s.remove(older)
	case newer != nil:
		all.surging++
	case !s.available(older):
		all.broken = append(all.broken, n)
	case !n.run:
		all.misplaced = append(all.misplaced, older)
	default:
		all.candidates = append(all.candidates, n)
	}
}
