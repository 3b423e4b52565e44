package berthapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/sandbox"
)

// Paths of what Berth's own commands ask beside the Kubernetes API. They are
// authorized as paths, so a ClusterRole with nonResourceURLs opens them.
const (
	FiguresPath   = "/berth/v1/policies"
	DecisionsPath = "/berth/v1/decisions"
	PlanPath      = "/berth/v1/plan"
	RehearsePath  = "/berth/v1/rehearsal"
	BackupPath    = "/berth/v1/backup"
	TokensPath    = "/berth/v1/tokens"
	ExplainPath   = "/berth/v1/explain"
	// ReconcilesPath is where controllers are asked again.
	ReconcilesPath = "/berth/v1/reconciles"
)

// Routes are those of Berth's own commands.
func (a *API) Routes() map[string]api.Route {
	return map[string]api.Route{
		"GET " + FiguresPath:                      {Handler: http.HandlerFunc(a.figures)},
		"GET " + FiguresPath + "/:name/logs":      {Handler: http.HandlerFunc(a.guestLog)},
		"GET " + FiguresPath + "/:name/module":    {Handler: http.HandlerFunc(a.module)},
		"GET " + DecisionsPath + "/:number/again": {Handler: http.HandlerFunc(a.replay)},
		"GET " + ExplainPath:                      {Handler: http.HandlerFunc(a.explainParent)},
		"GET " + PeersPath:                        {Handler: http.HandlerFunc(a.peers)},
		"GET " + BackupPath:                       {Handler: http.HandlerFunc(a.backup)},
		"POST " + ReconcilesPath:                  {Handler: http.HandlerFunc(a.reconcile)},
		"POST " + TokensPath:                      {Handler: http.HandlerFunc(a.makeToken)},
		"POST " + PlanPath:                        {Handler: http.HandlerFunc(a.plan)},
		"POST " + RehearsePath:                    {Handler: http.HandlerFunc(a.rehearse)},
	}
}

// fromEnd returns the n-th part of a request's path from behind.
func fromEnd(r *http.Request, n int) string {
	parts := strings.Split(r.URL.Path, "/")
	if n > len(parts) {
		return ""
	}
	return parts[len(parts)-n]
}

// figures answers what each policy used.
func (a *API) figures(w http.ResponseWriter, _ *http.Request) {
	_ = answerJSON(w, a.Policies.Figures())
}

// guestLog answers the last lines of a policy's guests.
func (a *API) guestLog(w http.ResponseWriter, r *http.Request) {
	name := fromEnd(r, 2)
	lines, ok := a.Policies.GuestLog(name)
	if !ok {
		http.Error(w, fmt.Sprintf("there is no policy %q: `berth policy list` shows those there are", name), http.StatusNotFound)
		return
	}
	if lines == nil {
		lines = []sandbox.Line{}
	}
	_ = answerJSON(w, lines)
}

// module answers the module of a live policy, as it was uploaded.
func (a *API) module(w http.ResponseWriter, r *http.Request) {
	name := fromEnd(r, 2)
	digest, ok := a.Policies.Digest(name)
	if !ok {
		http.Error(w, fmt.Sprintf("no policy %q is live", name), http.StatusNotFound)
		return
	}
	wasm, err := a.Store.Blob(r.Context(), digest)
	if err != nil {
		http.Error(w, fmt.Sprintf("module %s: %v", digest, err), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/wasm")
	_, _ = w.Write(wasm)
}

// Replay is a decision made again.
type Replay struct {
	Number    uint64 `json:"number"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Outcome   string `json:"outcome"`
	// Node is what was decided, Again what comes out now; empty is none.
	Node  string `json:"node,omitempty"`
	Again string `json:"again,omitempty"`
	// Message says why it went nowhere.
	Message string `json:"message,omitempty"`
	// Room is what was made by preemption, RoomAgain what is made now.
	Room      *explain.Room `json:"room,omitempty"`
	RoomAgain *explain.Room `json:"roomAgain,omitempty"`
	// Same says that all is as it was, Differs tells what is not.
	Same    bool     `json:"same"`
	Differs []string `json:"differs,omitempty"`
	// Note says what limits the comparison.
	Note string    `json:"note,omitempty"`
	At   time.Time `json:"at"`
}

// replay derives a decision again.
func (a *API) replay(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.ParseUint(fromEnd(r, 2), 10, 64)
	if err != nil {
		http.Error(w, "a decision is named by its number, which `berth explain pod` shows", http.StatusBadRequest)
		return
	}
	release, ok := a.deriving.take(r.Context())
	if !ok {
		return
	}
	defer release()
	again, err := a.Replay(r.Context(), number)
	switch {
	case errors.Is(err, explain.ErrOutside):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	t := &again.Trace
	answer := Replay{
		Number: t.Number, Namespace: t.Namespace, Pod: t.Name, Outcome: string(t.Outcome), Node: t.Node, Message: t.Message,
		Again: again.Again.Node, Same: again.Same, Differs: again.Differs, Note: again.Note, At: time.Unix(0, t.Now).UTC(),
	}
	answer.Room, answer.RoomAgain = again.Room()
	_ = answerJSON(w, answer)
}

// backup streams the store. The stream's end says that it is whole: without
// it, whoever reads knows that it was cut. A reader that takes nothing is given
// up, since the store cannot be opened anew while it is read from.
func (a *API) backup(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if _, err := a.Store.Backup(r.Context(), timely{w}); err != nil {
		a.Log.Warn("backup", "err", err)
	}
}
