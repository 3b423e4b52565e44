package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/cycle"

	"k8s.io/apimachinery/pkg/types"
)

// Room is what a decision made by preemption.
type Room struct {
	// Decision is the number of that decision, zero where it goes without saying.
	Decision uint64     `json:"decision,omitempty"`
	At       *time.Time `json:"at,omitempty"`
	// For is the pod that it was made for, as namespace/name, of Priority.
	For      string `json:"for,omitempty"`
	Priority int32  `json:"priority"`
	Node     string `json:"node"`
	// Victims had to go, the most important first. Unknown says that the recording
	// does not tell them.
	Victims []Victim `json:"victims,omitempty"`
	Unknown bool     `json:"unknown,omitempty"`
	// Hidden counts the pods that the reader is not told of.
	Hidden int `json:"hidden,omitempty"`
}

// Victim is a pod that had to go.
type Victim struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Priority  int32  `json:"priority"`
	// Breaks names the PodDisruptionBudgets that did not allow it, but which gave
	// way, since there was no other room.
	Breaks []string `json:"breaks,omitempty"`
}

// Veil takes out what names pods of namespaces whose pods the reader may not
// list.
func (r *Report) Veil(may func(namespace string) bool) {
	for _, room := range []*Room{r.Room, r.PreemptedBy} {
		if room == nil {
			continue
		}
		all := len(room.Victims)
		room.Victims = slices.DeleteFunc(room.Victims, func(v Victim) bool {
			return !may(v.Namespace) && (v.Namespace != r.Namespace || v.Pod != r.Pod)
		})
		room.Hidden += all - len(room.Victims)
	}
	if by := r.PreemptedBy; by != nil && by.For != "" {
		if namespace, _, _ := strings.Cut(by.For, "/"); !may(namespace) {
			by.For, by.Priority = "", 0
			by.Hidden++
		}
	}
}

func (v *Victim) String() string { return v.Namespace + "/" + v.Pod }

// roomOf is what a decision made, nil for none.
func roomOf(t *schedule.Trace) *Room {
	if t.Made == "" {
		return nil
	}
	at := time.Unix(0, t.Now).UTC()
	r := &Room{
		Decision: t.Number, At: &at, For: t.Namespace + "/" + t.Name, Priority: t.Pod.Priority(), Node: t.Made,
		Unknown: t.Preemption == nil,
	}
	if t.Preemption != nil {
		r.Victims = victimsOf(t.Preemption.Victims)
	}
	return r
}

func victimsOf(list []cycle.Victim) []Victim {
	all := make([]Victim, len(list))
	for i, v := range list {
		all[i] = Victim{Namespace: v.Pod.Object.Namespace, Pod: v.Pod.Object.Name, Priority: v.Pod.Priority(), Breaks: v.Breaks}
	}
	return all
}

// preempting notes what was done by preemption for the pod, or to it.
func (r *Report) preempting(s *schedule.Scheduler, uid types.UID) {
	t, ok := s.Traces().Making(uid)
	if !ok {
		return
	}
	if t.UID == uid {
		r.Room = roomOf(&t)
		return
	}
	r.PreemptedBy = roomOf(&t)
	if r.State == "bound" || r.State == "gone" {
		r.State = "preempted"
	}
}

// victim is the one of a room's that a report is about, nil if it is none.
func (r *Room) victim(namespace, name string) *Victim {
	for i := range r.Victims {
		if v := &r.Victims[i]; v.Namespace == namespace && v.Pod == name {
			return v
		}
	}
	return nil
}

// told says in words what was made.
func (r *Room) told() string {
	if r == nil {
		return "no room made"
	}
	if r.Unknown {
		return "room made on " + r.Node
	}
	names := make([]string, len(r.Victims))
	for i := range r.Victims {
		names[i] = r.Victims[i].String()
		if b := r.Victims[i].Breaks; len(b) > 0 {
			names[i] += " (against budget " + strings.Join(b, ", ") + ")"
		}
	}
	return fmt.Sprintf("room made on %s by preempting %s", r.Node, strings.Join(names, ", "))
}
