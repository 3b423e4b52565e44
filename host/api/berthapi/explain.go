package berthapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/explain"
)

// Explain answers GET …/pods/NAME/explain?node=&limit=.
func (a *API) Explain(w http.ResponseWriter, r *http.Request, c *api.Connection) error {
	query := r.URL.Query()
	options := explain.Options{Node: query.Get("node")}
	if limit := query.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 0 {
			return apierrors.NewBadRequest("limit: want a number of nodes, 0 for all")
		}
		options.Limit = n
	}
	release, ok := a.deriving.take(r.Context())
	if !ok {
		return r.Context().Err()
	}
	defer release()
	report, err := explain.Pod(r.Context(), a.Scheduler, c.Namespace, c.Name, options)
	switch {
	case errors.Is(err, explain.ErrNoPod):
		return notFound(c.Kind.GroupResource(), c.Name, "no pod %s/%s is known to the scheduler, and the log holds no decision about one", c.Namespace, c.Name)
	case errors.Is(err, explain.ErrNoNode):
		return notFound(schema.GroupResource{Resource: "nodes"}, options.Node, "there is no node %s: `kubectl get nodes` shows those there are", options.Node)
	case errors.Is(err, explain.ErrNoProfile):
		return apierrors.NewBadRequest(err.Error() + ": another scheduler may; `kubectl get profiles` shows those there are")
	case err != nil:
		return err
	}
	return answerJSON(w, report)
}

// notFound is a 404 in words of its own.
func notFound(resource schema.GroupResource, name, format string, args ...any) error {
	err := apierrors.NewNotFound(resource, name)
	err.ErrStatus.Message = fmt.Sprintf(format, args...)
	return err
}

// makeToken answers POST /berth/v1/tokens?life=24h.
func (a *API) makeToken(w http.ResponseWriter, r *http.Request) {
	life, err := time.ParseDuration(r.URL.Query().Get("life"))
	if err != nil || life < 0 {
		http.Error(w, "life: want a duration such as 24h", http.StatusBadRequest)
		return
	}
	token, err := a.NewToken(r.Context(), life, "made through the API")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = answerJSON(w, map[string]string{"token": token})
}

func answerJSON(w http.ResponseWriter, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(data, '\n'))
	return err
}
