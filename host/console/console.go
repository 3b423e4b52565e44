package console

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Paths of the console, authorized as paths. Root is where its pages lie.
const (
	Root        = "/console/"
	CodesPath   = Root + "v1/codes"
	sessionPath = Root + "v1/session"
	streamPath  = Root + "v1/stream"
	servicePath = Root + "v1/service"
	podPath     = Root + "v1/pod"
	podsPath    = Root + "v1/pods"
	pastPath    = Root + "v1/past"
)

// Scheduler is what the views are made from.
type Scheduler interface {
	Glance(context.Context) (schedule.Glance, error)
	Pending(context.Context) ([]schedule.Pending, error)
	// Held, Traces and At are the decisions that are kept, and the state that each
	// was made from.
	Held(context.Context) (oldest, next uint64, err error)
	Traces() *schedule.Traces
	At(ctx context.Context, position uint64) (*snapshot.View, bool, error)
}

// Config is what a console is made of. All of it is required.
type Config struct {
	Scheduler Scheduler
	Objects   Objects
	// May tells what users may do.
	May authorizer.Authorizer
	// Key is the secret by which sessions are known again, also by the next run
	// of the host.
	Key []byte
	Now func() time.Time
}

// Console answers.
//
// It is large because what each view asks beside its stream has its handler in a file
// of its own.
type Console struct {
	Config
	codes     codes
	glances   shared[schedule.Glance]
	waiting   shared[[]waiting]
	workloads following[workloadRow]
	services  following[servicePart]
	events    following[eventRow]
	// looksBack bounds how many look back at a time.
	looksBack chan struct{}
}

// New makes a console.
func New(c Config) *Console {
	return &Console{
		Config: c, codes: codes{now: c.Now, open: map[string]pendingCode{}},
		glances: newShared(c.Now, interval, c.Scheduler.Glance),
		waiting: newShared(c.Now, tableInterval, func(ctx context.Context) ([]waiting, error) {
			all, err := c.Scheduler.Pending(ctx)
			return byReason(all), err
		}),
		workloads: following[workloadRow]{objects: c.Objects, resources: slices.Sorted(maps.Keys(workloadKinds)), row: workloadOf},
		services:  following[servicePart]{objects: c.Objects, resources: []string{servicesResource, slicesResource}, row: servicePartOf},
		events:    following[eventRow]{objects: c.Objects, resources: []string{eventsResource}, row: eventOf},
		looksBack: make(chan struct{}, maxLooksBack),
	}
}

// Routes are the pages, and what they ask of the console itself. Who has no
// session yet may see the pages, which hold no secret, and sign in.
func (c *Console) Routes() map[string]api.Route {
	pages := api.Route{Handler: http.HandlerFunc(page), Public: true}
	return map[string]api.Route{
		"GET /console":          {Handler: http.RedirectHandler(Root, http.StatusMovedPermanently), Public: true},
		"GET " + Root:           pages,
		"GET " + Root + "*":     pages,
		"POST " + CodesPath:     {Handler: http.HandlerFunc(c.makeCode)},
		"POST " + sessionPath:   {Handler: http.HandlerFunc(c.signIn), Public: true},
		"DELETE " + sessionPath: {Handler: http.HandlerFunc(c.signOut), Public: true},
		"GET " + sessionPath:    {Handler: http.HandlerFunc(c.whoAmI)},
		"GET " + streamPath:     {Handler: http.HandlerFunc(c.stream)},
		"GET " + servicePath:    {Handler: http.HandlerFunc(c.service)},
		"GET " + podPath:        {Handler: http.HandlerFunc(c.pod)},
		"POST " + podsPath:      {Handler: http.HandlerFunc(c.pods)},
		"GET " + pastPath:       {Handler: http.HandlerFunc(c.past)},
	}
}

// whoAmI tells who is signed in and which views there are for him.
func (c *Console) whoAmI(w http.ResponseWriter, r *http.Request) {
	who, _ := request.UserFrom(r.Context())
	session, _ := c.session(r)
	rights := rights{r.Context(), who, c.May}
	open := map[string]bool{}
	for name, needs := range views {
		open[name] = rights.all(needs)
	}
	answer(w, map[string]any{
		"user": who.GetName(), "groups": who.GetGroups(), "until": session.Until, "views": open,
		"write": session.Write && rights.may(question{verb: "patch", group: "policy.berth.dev", resource: "policies"}),
	})
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(value) // whoever left does not want it
}

// question is one that an access review answers.
type question struct{ verb, group, resource, subresource, path, namespace, name string }

// views are the views, each with the reviews that open it.
var views = map[string][]question{
	"topology":  {{verb: "list", resource: "nodes"}},
	"pending":   {},
	"decision":  {},
	"workloads": {},
	"services":  {},
	"events":    {},
	"logs":      {},
	"plan":      {{verb: "post", path: "/berth/v1/plan"}, {verb: "list", resource: "nodes"}},
	"time":      {{verb: "list", resource: "nodes"}},
	"policies":  {{verb: "list", group: "policy.berth.dev", resource: "policies"}, {verb: "get", path: "/berth/v1/policies"}},
	"profiles":  {{verb: "list", group: "policy.berth.dev", resource: "profiles"}},
}

// rights are what a user may do at this moment.
type rights struct {
	ctx  context.Context
	who  user.Info
	auth authorizer.Authorizer
}

func (r rights) may(q question) bool {
	decision, _, err := r.auth.Authorize(r.ctx, authorizer.AttributesRecord{
		User: r.who, Verb: q.verb, APIGroup: q.group, APIVersion: "*", Resource: q.resource, Subresource: q.subresource,
		Namespace: q.namespace, Name: q.name, ResourceRequest: q.path == "", Path: q.path,
	})
	return err == nil && decision == authorizer.DecisionAllow
}

func (r rights) all(questions []question) bool {
	for _, q := range questions {
		if !r.may(q) {
			return false
		}
	}
	return true
}
