package reconcile

import (
	"time"

	"github.com/berth-dev/berth/sdk/json"
)

// Result is what a controller wants done. The host stores all of it
// together or nothing; it sets owner references and namespaces, and refuses
// kinds and verbs that are not declared.
type Result struct {
	// Status is JSON that replaces the parent's status; none leaves it.
	Status string
	// Create are objects wanted that do not exist.
	Create []Creation
	// Patch, Delete, Adopt and Release name objects by UID, in the order in which
	// they are to be handled.
	Patch          []Patch
	Delete         []Deletion
	Adopt, Release []string
	Events         []Event
	// RequeueAfter is when to ask again; 0 waits for a change.
	RequeueAfter time.Duration
	// Step says that there is more to do of the state that this makes: a batch of
	// many, or a deletion before what takes the place. The host checks now and then
	// that any other Result asks for nothing more where only it was stored.
	Step bool
	// Why says in sentences what the parent waits for.
	Why []string
	// Memory is JSON that the next question gives as the parent's fact
	// abi.FactMemory; none leaves what there is. A restart of the host forgets it.
	Memory string
}

// Creation is an object to create Count times.
type Creation struct {
	// From is a field of the parent with a template, such as spec.template, that
	// the host begins with. Object is a JSON merge patch of it then, else the
	// object itself.
	From, Object string
	Count        int64
	// Each are merge patches of that, one an object, in place of Count.
	Each []string
	// Unowned objects do not belong to the parent.
	Unowned bool
	// Quiet: the host writes no event SuccessfulCreate. It does so only where it
	// makes up the name.
	Quiet bool
	// Success is the message of the event SuccessfulCreate, and Failure what
	// FailedCreate says before it says what was refused; the host has words of its
	// own where they are empty, and is silent of the success of a fixed name.
	Success, Failure string
}

// Patch is a JSON merge patch of the object with that UID. Subresource is empty,
// "status" or "scale".
type Patch struct{ UID, Patch, Subresource string }

// Deletion takes the object with that UID away.
type Deletion struct {
	UID string
	// Grace is how many seconds it gets, if HasGrace says so.
	Grace    int64
	HasGrace bool
	// Propagation is Background where it is empty, Foreground or Orphan.
	Propagation string
	// Quiet: the host writes no event SuccessfulDelete.
	Quiet bool
	// Success is that event's message; the host has one where it is empty.
	Success string
}

// Event is one event on the parent, or on the object with the UID in About.
type Event struct{ Type, Reason, Message, About string }

// JSON is the answer as the host reads it.
func (o *Result) JSON() []byte {
	j := &json.Writer{}
	j.Open('{')
	if o.Status != "" {
		j.Key("status").Value(o.Status)
	}
	o.creations(j)
	o.patches(j)
	o.deletions(j)
	j.MemberTexts("adopt", o.Adopt)
	j.MemberTexts("release", o.Release)
	o.events(j)
	if o.RequeueAfter > 0 {
		j.Key("requeueAfterNanos").Int(int64(o.RequeueAfter))
	}
	if o.Step {
		j.Key("step").Bool(true)
	}
	j.MemberTexts("why", o.Why)
	if o.Memory != "" {
		j.Key("memory").Value(o.Memory)
	}
	return j.Close('}').Bytes()
}

func (o *Result) creations(j *json.Writer) {
	if len(o.Create) == 0 {
		return
	}
	j.Key("create").Open('[')
	for i := range o.Create {
		c := &o.Create[i]
		j.Open('{').Key("count").Int(c.Count).Member("from", c.From)
		if c.Object != "" {
			j.Key("object").Value(c.Object)
		}
		if len(c.Each) > 0 {
			j.Key("each").Open('[')
			for _, patch := range c.Each {
				j.Value(patch)
			}
			j.Close(']')
		}
		if c.Unowned {
			j.Key("unowned").Bool(true)
		}
		if c.Quiet {
			j.Key("quiet").Bool(true)
		}
		j.Member("success", c.Success).Member("failure", c.Failure).Close('}')
	}
	j.Close(']')
}

func (o *Result) patches(j *json.Writer) {
	if len(o.Patch) == 0 {
		return
	}
	j.Key("patch").Open('[')
	for i := range o.Patch {
		p := &o.Patch[i]
		j.Open('{').Key("uid").Text(p.UID).Key("patch").Value(p.Patch).Member("subresource", p.Subresource).Close('}')
	}
	j.Close(']')
}

func (o *Result) deletions(j *json.Writer) {
	if len(o.Delete) == 0 {
		return
	}
	j.Key("delete").Open('[')
	for i := range o.Delete {
		d := &o.Delete[i]
		j.Open('{').Key("uid").Text(d.UID)
		if d.HasGrace {
			j.Key("gracePeriodSeconds").Int(d.Grace)
		}
		j.Member("propagationPolicy", d.Propagation)
		if d.Quiet {
			j.Key("quiet").Bool(true)
		}
		j.Member("success", d.Success).Close('}')
	}
	j.Close(']')
}

func (o *Result) events(j *json.Writer) {
	if len(o.Events) == 0 {
		return
	}
	j.Key("events").Open('[')
	for i := range o.Events {
		e := &o.Events[i]
		j.Open('{').Key("type").Text(e.Type).Key("reason").Text(e.Reason).Key("message").Text(e.Message)
		j.Member("about", e.About).Close('}')
	}
	j.Close(']')
}
