package berthapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/berth-dev/berth/host/controller/record"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/trial"
)

// ReconcileRequest asks what a controller was asked about an object.
type ReconcileRequest struct {
	// Resource is the object's, by any of the names that kubectl knows it by.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Policy is whose answer is meant, where several look after the object.
	Policy string `json:"policy,omitempty"`
	// At is when: the last question until then is meant, or the last of all.
	At time.Time `json:"at,omitzero"`
	// Other is asked in place of who answered then.
	Other *trial.Variation `json:"other,omitempty"`
}

// Reconciled is what a controller answered, and what comes out now.
type Reconciled struct {
	Policy string    `json:"policy"`
	At     time.Time `json:"at"`
	// Then and Again say in lines what the two answers want done.
	Then  []string `json:"then"`
	Again []string `json:"again"`
	// Failure is how the controller failed then, FailureAgain how it fails now.
	Failure      string `json:"failure,omitempty"`
	FailureAgain string `json:"failureAgain,omitempty"`
	// Same says that the answers are the same to the byte, or both failed.
	Same bool `json:"same"`
	// Differs are the lines of the one that the other has not: "- " before those of
	// then, "+ " before those of now.
	Differs []string `json:"differs,omitempty"`
}

// reconcile has a controller asked again, for who may get the object.
func (a *API) reconcile(w http.ResponseWriter, r *http.Request) {
	var request ReconcileRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPlanBytes)).Decode(&request); err != nil {
		http.Error(w, "want JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	k := kindNamed(request.Resource)
	if k == nil {
		http.Error(w, fmt.Sprintf("no resource %q is served: `kubectl api-resources` shows those there are", request.Resource), http.StatusNotFound)
		return
	}
	if !k.Namespaced {
		request.Namespace = ""
	}
	if !a.mayGet(w, r, k, request.Namespace, request.Name) {
		return
	}
	release, ok := a.deriving.take(r.Context())
	if !ok {
		return
	}
	defer release()
	about := record.About{Resource: k.StoreName(), Namespace: request.Namespace, Name: request.Name, Policy: request.Policy, At: request.At}
	was, again, err := a.ReconcileAgain(r.Context(), about, request.Other)
	if was == nil {
		refuseQuestion(w, err)
		return
	}
	answer, err := compared(was, again, err)
	if err != nil {
		refuse(w, err)
		return
	}
	_ = answerJSON(w, answer)
}

func refuseQuestion(w http.ResponseWriter, err error) {
	if errors.As(err, new(*record.OutsideError)) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	refuse(w, err)
}

// compared holds a past answer against what came out again, or how that failed.
func compared(was *record.Question, again []byte, failed error) (*Reconciled, error) {
	r := &Reconciled{Policy: was.Policy, At: was.At.UTC(), Failure: was.Failure, Then: []string{}, Again: []string{}}
	if failed != nil {
		if !errors.As(failed, new(*engine.Failure)) {
			return nil, failed
		}
		r.FailureAgain = failed.Error()
	}
	var err error
	if was.Failure == "" {
		if r.Then, err = record.Says(was.In, was.Out); err != nil {
			return nil, err
		}
	}
	if failed == nil {
		if r.Again, err = record.Says(was.In, again); err != nil {
			r.FailureAgain = err.Error()
		}
	}
	r.Same = (r.Failure == "") == (r.FailureAgain == "") && bytes.Equal(was.Out, again)
	for _, line := range r.Then {
		if !slices.Contains(r.Again, line) {
			r.Differs = append(r.Differs, "- "+line)
		}
	}
	for _, line := range r.Again {
		if !slices.Contains(r.Then, line) {
			r.Differs = append(r.Differs, "+ "+line)
		}
	}
	return r, nil
}
