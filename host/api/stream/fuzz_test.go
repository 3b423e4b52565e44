package stream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// FuzzAgentRefusal has a node's agent refuse in any words: the client is always
// told a Status that says so.
func FuzzAgentRefusal(f *testing.F) {
	f.Add(404, []byte("no such pod"))
	f.Add(200, []byte(`{"kind":"Status","status":"Failure","code":403,"message":"no"}`))
	f.Add(101, []byte(`{"kind":"Status","status":"Failure","code":-7}`))
	f.Add(500, []byte(`{"kind":"Status","status":"Failure","code":1000}`))
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		err := agentRefusal("n", &http.Response{StatusCode: code, Status: "x", Body: io.NopCloser(bytes.NewReader(body))})
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			t.Fatalf("%d %q is told as %v", code, body, err)
		}
		if got := status.Status().Code; got < 400 || got > 599 {
			t.Errorf("%d %q becomes code %d", code, body, got)
		}
	})
}
