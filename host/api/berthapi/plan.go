package berthapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/trial"
)

// Bounds of plans and rehearsals: each opens every policy once more, and looks
// at a copy of the cluster.
const (
	maxPlanned    = 10_000
	maxPlanBytes  = 64 << 20
	maxVariations = 16
	// usualRehearsal is how many decisions are rehearsed where no number is
	// given, MaxRehearsed how many at most.
	usualRehearsal = 200
	MaxRehearsed   = 5000
	// maxDeriving is how many decisions are derived again at a time.
	maxDeriving = 4
)

// turns bound how many do at once what takes much memory.
type turns chan struct{}

// take waits for a turn; ok is false where ctx ends first.
func (t turns) take(ctx context.Context) (release func(), ok bool) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, true
	case <-ctx.Done():
		return nil, false
	}
}

// PlanRequest asks where pods would go. A PodList as JSON is one too.
type PlanRequest struct {
	Items []v1.Pod `json:"items"`
	// Policies are put in place of those that are live.
	Policies []trial.Variation `json:"policies,omitempty"`
}

// RehearsalRequest asks what policies would have made of past decisions.
type RehearsalRequest struct {
	Policies []trial.Variation `json:"policies"`
	// Decisions is how many of the newest are looked at; 0 is 200.
	Decisions int `json:"decisions,omitempty"`
}

// take reads a request's body and waits for its turn: one plan or rehearsal
// is made at a time. It answers what is wrong itself.
func (a *API) take(w http.ResponseWriter, r *http.Request, into any) (release func(), ok bool) {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPlanBytes)).Decode(into); err != nil {
		http.Error(w, "want JSON, see abi/SPEC.md: "+err.Error(), http.StatusBadRequest)
		return nil, false
	}
	return a.planning.take(r.Context())
}

// refuse answers an error: the caller's fault, or the state's.
func refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, module.ErrRefused) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	http.Error(w, err.Error(), http.StatusConflict)
}

// checkNames refuses names that no policy can have. Those of built-in policies have
// capitals.
func checkNames(variations []trial.Variation) error {
	for i := range variations {
		name := variations[i].Name
		if wrong := validation.IsDNS1123Subdomain(strings.ToLower(name)); len(wrong) > 0 {
			return fmt.Errorf("%w: %.64q is no policy's name: %s", module.ErrRefused, name, wrong[0])
		}
	}
	return nil
}

// vary opens the live set with what a request varies.
func (a *API) vary(ctx context.Context, variations []trial.Variation) (*policy.Variant, error) {
	if err := checkNames(variations); err != nil {
		return nil, err
	}
	return a.Policies.Vary(ctx, variations)
}

// plan answers where pods would go.
func (a *API) plan(w http.ResponseWriter, r *http.Request) {
	var request PlanRequest
	release, ok := a.take(w, r, &request)
	if !ok {
		return
	}
	defer release()
	if n := len(request.Items); n == 0 || n > maxPlanned || len(request.Policies) > maxVariations {
		http.Error(w, fmt.Sprintf("a plan is for 1 to %d pods, a PodList as JSON, and with up to %d policies", maxPlanned, maxVariations), http.StatusBadRequest)
		return
	}
	placements, err := a.planned(r.Context(), &request)
	if err != nil {
		refuse(w, err)
		return
	}
	_ = answerJSON(w, placements)
}

func (a *API) planned(ctx context.Context, request *PlanRequest) ([]explain.Placement, error) {
	varied, err := a.vary(ctx, request.Policies)
	if err != nil {
		return nil, err
	}
	defer varied.Release()
	pods := make([]*v1.Pod, len(request.Items))
	for i := range pods {
		pods[i] = &request.Items[i]
	}
	plan, err := explain.Plan(ctx, a.Scheduler, varied.Set, pods)
	if err != nil || len(request.Policies) == 0 {
		return plan, err
	}
	live, err := explain.Plan(ctx, a.Scheduler, varied.Live, pods)
	if err != nil {
		return nil, err
	}
	explain.Compare(plan, live)
	return plan, nil
}

// rehearse answers what policies would have made of past decisions.
func (a *API) rehearse(w http.ResponseWriter, r *http.Request) {
	var request RehearsalRequest
	release, ok := a.take(w, r, &request)
	if !ok {
		return
	}
	defer release()
	if request.Decisions == 0 {
		request.Decisions = usualRehearsal
	}
	if n := len(request.Policies); n == 0 || n > maxVariations || request.Decisions < 0 || request.Decisions > MaxRehearsed {
		http.Error(w, fmt.Sprintf("a rehearsal is of 1 to %d policies, over up to %d decisions", maxVariations, MaxRehearsed), http.StatusBadRequest)
		return
	}
	rehearsal, err := a.rehearsed(r.Context(), &request)
	if err != nil {
		refuse(w, err)
		return
	}
	_ = answerJSON(w, rehearsal)
}

func (a *API) rehearsed(ctx context.Context, request *RehearsalRequest) (*explain.Rehearsal, error) {
	varied, err := a.vary(ctx, request.Policies)
	if err != nil {
		return nil, err
	}
	defer varied.Release()
	variant := explain.Variant{Live: varied.Live, Varied: varied.Set, Profiles: varied.Profiles, Policies: map[string]bool{}}
	for i := range request.Policies {
		variant.Policies[request.Policies[i].Name] = true
	}
	if variant.Apart, err = varied.Apart(); err != nil {
		return nil, err
	}
	rehearsal, err := explain.Rehearse(ctx, a.Scheduler, variant, request.Decisions)
	if err != nil {
		return nil, err
	}
	rehearsal.Kinds = varied.Kinds
	return rehearsal, nil
}
