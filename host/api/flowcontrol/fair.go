package flowcontrol

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Limits are the size of one level.
type Limits struct {
	// Seats are how much may run at once.
	Seats int
	// FlowQueue and Queue are how many may wait of one flow and in all.
	FlowQueue, Queue int
	// Wait is how long one may wait.
	Wait time.Duration
}

// Names of the levels.
const (
	Leases   = "leases"   // signs of life and leader election
	Nodes    = "nodes"    // node agents
	System   = "system"   // scheduler, controllers, service accounts of kube-system
	Admin    = "admin"    // system:masters
	Accounts = "accounts" // service accounts of workloads
	Users    = "users"    // everybody else
	Nobody   = "nobody"   // without credentials
)

// Defaults gives each level its limits for a machine of so many processors. A
// request spends most of its time waiting for the disk, so there are many more
// seats than processors; a list does not, and takes listWidth of them.
func Defaults(processors int) map[string]Limits {
	size := func(seats int) Limits {
		return Limits{Seats: seats * processors, FlowQueue: 512, Queue: 4096, Wait: 15 * time.Second}
	}
	return map[string]Limits{
		Leases: size(32), Nodes: size(64), System: size(64), Admin: size(64),
		Accounts: size(32), Users: size(32), Nobody: size(4),
	}
}

// listWidth is how many seats a list or a deletion of many takes.
const listWidth = 8

// Fair is the gate that requests pass. It implements the API's Fairness.
type Fair struct {
	levels map[string]*level
	holds  holds
}

// New makes a gate with limits, of which all levels must be given; a user may
// have so many watches and streams open, MaxStreams if that is 0.
func New(limits map[string]Limits, streams int) *Fair {
	if streams <= 0 {
		streams = MaxStreams
	}
	f := &Fair{levels: map[string]*level{}, holds: holds{most: streams, byUser: map[string]*holding{}}}
	for name, l := range limits {
		f.levels[name] = newLevel(name, l)
	}
	return f
}

// Enter returns when the request may run; leave must be called when it is done.
//
// # Errors
// 429 with the seconds after which to try again, or the context's error.
func (f *Fair) Enter(ctx context.Context, who user.Info, about *apirequest.RequestInfo) (leave func(), err error) {
	l := f.levels[levelOf(who, about)]
	if l == nil {
		return func() {}, nil
	}
	width := min(widthOf(about), l.limits.Seats)
	if err := l.enter(ctx, flowOf(who), width); err != nil {
		return nil, err
	}
	left := false
	return func() {
		if left {
			return
		}
		left = true
		l.leave(flowOf(who), width)
	}, nil
}

func flowOf(who user.Info) string {
	if who == nil {
		return ""
	}
	return who.GetName()
}

func widthOf(about *apirequest.RequestInfo) int {
	if about != nil && about.Name == "" && (about.Verb == "list" || about.Verb == "deletecollection") {
		return listWidth
	}
	return 1
}

const (
	accountPrefix       = "system:serviceaccount:"
	systemAccountPrefix = "system:serviceaccount:kube-system:"
)

// levelOf sorts a request by who sends it; leases of the cluster's own parts
// have a level of their own, since missing one costs a whole node.
func levelOf(who user.Info, about *apirequest.RequestInfo) string {
	if who == nil {
		return Nobody
	}
	name, groups := who.GetName(), who.GetGroups()
	level := Users
	switch {
	case slices.Contains(groups, user.NodesGroup):
		level = Nodes
	case name == user.KubeScheduler, name == user.KubeControllerManager, name == user.KubeProxy, strings.HasPrefix(name, systemAccountPrefix):
		level = System
	case slices.Contains(groups, user.SystemPrivilegedGroup):
		return Admin
	case strings.HasPrefix(name, accountPrefix):
		return Accounts
	case slices.Contains(groups, user.AllUnauthenticated):
		return Nobody
	}
	ofCluster := level == Nodes || level == System
	if ofCluster && about != nil && about.APIGroup == "coordination.k8s.io" && about.Name != "" {
		return Leases
	}
	return level
}

// State is what one level looks like now.
type State struct {
	Level            string
	Seats, Taken     int
	Waiting, Flows   int
	Admitted, Denied uint64
}

// States tells all levels, by name.
func (f *Fair) States() []State {
	states := make([]State, 0, len(f.levels))
	for _, l := range f.levels {
		states = append(states, l.state())
	}
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.Level, b.Level) })
	return states
}

func tooMany(level string) error {
	return apierrors.NewTooManyRequests("too many requests of the level "+level+", please try again later", 1)
}
