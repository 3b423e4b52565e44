package trial

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// maxAnswer is how much of an answer an example tells, in bytes.
const maxAnswer = 400

// Controllers is a controller on trial: a canary, which decides about a share of
// the parents instead of the live one, or a shadow, for which Live is nil.
type Controllers struct {
	Trial       *Trial
	Live, Tried *sandbox.Controller
}

// Takes says whether a canary decides about a parent: its place is the same each
// time. One that is over decides about none.
func (t *Trial) Takes(parent types.UID) bool {
	return !t.over() && int32(number(parent)%100) < t.Share
}

// number is one of an object's own, the same each time.
func number(uid types.UID) uint32 {
	h := fnv.New32a()
	h.Write([]byte(uid))
	return h.Sum32()
}

// Answer is what a controller wants done about a parent: each effect as people
// read it, and in full.
type Answer struct{ Texts, Keys []string }

// Answered counts one parent about which two controllers were asked.
func (d *Differences) Answered(parent string, live, tried Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sum.Answers++
	d.changed = true
	if slices.Equal(live.Keys, tried.Keys) {
		return
	}
	d.sum.Otherwise++
	d.example(answeredSort, v1alpha1.Difference{Parent: parent, Live: live.without(&tried), Trial: tried.without(&live)})
}

// NotCompared counts one parent about which the live controller has no answer.
func (d *Differences) NotCompared() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sum.NotCompared++
	d.changed = true
}

// without tells an answer without what the other wants, too. Where the effects
// read the same, all of them are told in full.
func (a *Answer) without(other *Answer) string {
	var texts []string
	for i, key := range a.Keys {
		switch {
		case slices.Contains(other.Keys, key):
		case slices.Contains(other.Texts, a.Texts[i]):
			texts = append(texts, key)
		default:
			texts = append(texts, a.Texts[i])
		}
	}
	if len(texts) == 0 {
		return "nothing"
	}
	return abi.Text(strings.Join(counted(texts), ", "), maxAnswer)
}

// counted puts what stands there several times once.
func counted(texts []string) (all []string) {
	for i := 0; i < len(texts); {
		n := 1
		for i+n < len(texts) && texts[i+n] == texts[i] {
			n++
		}
		text := texts[i]
		if n > 1 {
			text += fmt.Sprintf(" (%d times)", n)
		}
		all = append(all, text)
		i += n
	}
	return all
}
