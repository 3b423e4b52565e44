package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refuse writes an error as a Status.
func refuse(w http.ResponseWriter, err error) {
	status := apierrors.NewInternalError(err).Status()
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // whoever asked has gone
}

// responder writes what goes wrong before the streams flow.
type responder struct{ node string }

// Error implements proxy.ErrorResponder.
func (p responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	refuse(w, unreachable(p.node, err))
}

// unreachable is an agent that does not answer as it should.
func unreachable(node string, err error) error {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		return err
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("node %s does not answer: %v", node, err))
}

// maxRefusal bounds what is read of an agent's refusal.
const maxRefusal = 4 << 10

// agentRefusal is the Status for an agent's answer that is no success.
func agentRefusal(node string, answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	if err != nil {
		return unreachable(node, err)
	}
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" && status.Status == metav1.StatusFailure && isFailure(int(status.Code)) {
		return &apierrors.StatusError{ErrStatus: status}
	}
	message := strings.TrimSpace(string(text))
	if message == "" {
		message = fmt.Sprintf("node %s answered %s", node, answer.Status)
	}
	reasons := map[int]metav1.StatusReason{
		http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	}
	code := answer.StatusCode
	if !isFailure(code) {
		code = http.StatusBadGateway
	}
	reason, ok := reasons[code]
	if !ok {
		reason = metav1.StatusReasonInternalError
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message}}
}

// isFailure says whether a code can be passed on: an agent may say anything, and
// an answer of 1000 cannot be written.
func isFailure(code int) bool { return code >= 400 && code < 600 }
