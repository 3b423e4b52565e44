package framework

import (
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
)

// Reason is a text that a policy gave for refusing a row.
type Reason struct {
	// Policy is who said it.
	Policy string
	Text   string
	// Resolvable says that removing pods from the node could help.
	Resolvable bool
}

// MaxReasonText bounds a reason's text in bytes; what is beyond is cut.
const MaxReasonText = 256

// Reasons is the host's table of reasons: append-only and bounded, so that a
// verdict is one integer. It is safe for concurrent use; reading takes no lock.
type Reasons struct {
	limit int
	// aside is the table beside a live one, which live is for the former; its
	// numbers begin at base.
	aside, live *Reasons
	base        ReasonID
	mu          sync.Mutex
	ids         map[Reason]ReasonID
	byID        atomic.Pointer[[]Reason]
}

// NewReasons returns a table of at most limit reasons, 65,536 where limit is 0.
// Once it is full, further reasons of a policy share one entry.
func NewReasons(limit int) *Reasons {
	if limit <= 0 {
		limit = 1 << 16
	}
	live, aside := newReasons(limit), newReasons(limit)
	live.aside, aside.live, aside.base = aside, live, 1<<30
	return live
}

func newReasons(limit int) *Reasons {
	r := &Reasons{limit: limit, ids: map[Reason]ReasonID{}}
	r.byID.Store(&[]Reason{{}})
	return r
}

// Aside is the table for policies that are only tried, such as a plan's: what they
// say may be anything, and is to leave the live ones their room. A reason that the
// live ones gave has its number there; the live table knows the others' too.
func (r *Reasons) Aside() *Reasons {
	if r.live != nil {
		return r
	}
	return r.aside
}

// Intern returns the number of a reason, a new one where it is not known yet.
func (r *Reasons) Intern(reason Reason) ReasonID {
	if len(reason.Text) > MaxReasonText {
		reason.Text = reason.Text[:MaxReasonText]
	}
	reason.Text = strings.TrimSpace(strings.Map(printable, strings.ToValidUTF8(reason.Text, "")))
	if reason.Text == "" {
		reason.Text = "refused by " + reason.Policy
	}
	if r.live != nil {
		if id, ok := r.live.known(reason); ok {
			return id
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if id, ok := r.ids[reason]; ok {
		return id
	}
	all := *r.byID.Load()
	if len(all) >= r.limit {
		return r.overflow(reason)
	}
	return r.append(reason)
}

// printable keeps what steers a terminal out of what is shown on one.
func printable(r rune) rune {
	switch {
	case unicode.IsPrint(r):
		return r
	case unicode.IsSpace(r):
		return ' '
	}
	return '?'
}

func (r *Reasons) known(reason Reason) (ReasonID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, ok := r.ids[reason]
	return id, ok
}

// overflow gives the entry that stands for all further reasons of a policy,
// whose number is bounded by the number of policies.
func (r *Reasons) overflow(reason Reason) ReasonID {
	rest := Reason{Policy: reason.Policy, Text: "other reasons", Resolvable: reason.Resolvable}
	if id, ok := r.ids[rest]; ok {
		return id
	}
	if len(*r.byID.Load()) >= 2*r.limit {
		return r.base + 1
	}
	return r.append(rest)
}

func (r *Reasons) append(reason Reason) ReasonID {
	all := *r.byID.Load()
	id := r.base + ReasonID(len(all))
	// Readers hold a shorter slice of the same array, or the array before it.
	all = append(all, reason)
	r.byID.Store(&all)
	r.ids[reason] = id
	return id
}

// Get returns the reason with a number, the zero Reason for one that is not there.
func (r *Reasons) Get(id ReasonID) Reason {
	switch {
	case r.live == nil && id >= r.aside.base:
		return r.aside.Get(id)
	case id < r.base:
		return r.live.Get(id)
	}
	all := *r.byID.Load()
	if at := int(id - r.base); at < len(all) {
		return all[at]
	}
	return Reason{}
}

// Len is how many reasons there are, the empty one included.
func (r *Reasons) Len() int { return len(*r.byID.Load()) }
