package berthapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/explain"
)

// Explain answers GET …/pods/NAME/explain?node=&limit=&decision=&shape=: of the
// decision with a number, where one is given, and in columns where shape says so.
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
	columns := query.Get("shape") == "columns"
	if columns {
		options = explain.Options{} // they are of all nodes
	}
	release, ok := a.deriving.take(r.Context())
	if !ok {
		return r.Context().Err()
	}
	defer release()
	report, err := a.explained(r.Context(), c, query.Get("decision"), options)
	switch {
	case errors.Is(err, explain.ErrOutside):
		return notFound(c.Kind.GroupResource(), c.Name, "%v", err)
	case errors.Is(err, explain.ErrNoPod):
		return notFound(c.Kind.GroupResource(), c.Name, "no pod %s/%s is known to the scheduler, and the log holds no decision about one", c.Namespace, c.Name)
	case errors.Is(err, explain.ErrNoNode):
		return notFound(schema.GroupResource{Resource: "nodes"}, options.Node, "there is no node %s: `kubectl get nodes` shows those there are", options.Node)
	case errors.Is(err, explain.ErrNoProfile):
		return apierrors.NewBadRequest(err.Error() + ": another scheduler may; `kubectl get profiles` shows those there are")
	case err != nil:
		return err
	}
	report.Veil(func(namespace string) bool { return a.may(r, "list", pods, namespace, "") })
	if columns {
		return answerJSON(w, explain.ColumnsOf(report))
	}
	return answerJSON(w, report)
}

var pods = kind.MustStored("pods")

// explained explains a pod, or one decision about it.
func (a *API) explained(ctx context.Context, c *api.Connection, decision string, o explain.Options) (*explain.Report, error) {
	if decision == "" {
		return explain.Pod(ctx, a.Scheduler, c.Namespace, c.Name, o)
	}
	number, err := strconv.ParseUint(decision, 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest("decision: want its number")
	}
	return explain.Decided(ctx, a.Scheduler, c.Namespace, c.Name, number, o)
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
		http.Error(w, "life: want a duration such as 24h, or 0 for a token that holds for ever", http.StatusBadRequest)
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
