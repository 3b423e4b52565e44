package gate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/berth-dev/berth/abi"
)

// FuzzRequest gives anything as an observation by HTTP. What its check lets
// through is one request to the pod's address, and no other.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","kind":"http","port":"web","scheme":"HTTPS","path":"/a%20b?x=%zz#y","httpHeaders":[{"name":"Host","value":"a.example:80"},{"name":"Accept","value":""}]}`,
		`{"name":"a","kind":"http","port":80,"path":"//evil.example:1/x"}`,
		`{"name":"a","kind":"http","port":80,"path":"http://user:word@evil.example/"}`,
		`{"name":"a","kind":"http","port":80,"path":"@evil.example/:80"}`,
		`{"name":"a","kind":"http","port":80,"path":"?a=/b"}`,
		`{"name":"a","kind":"http","port":80,"path":"/%00\u0085ä"}`,
		`{"name":"a","kind":"http","port":80,"path":"/ HTTP/1.1\r\n\r\nDELETE /"}`,
		`{"name":"a","kind":"http","port":80,"httpHeaders":[{"name":"A","value":"b\r\nC: d"}]}`,
		`{"name":"a","kind":"http","port":80,"httpHeaders":[{"name":"Transfer-Encoding","value":"chunked"},{"name":"Content-Length","value":"5"}]}`,
		`{"name":"a","kind":"http","port":80,"httpHeaders":[{"name":"Host","value":"[::1%25eth0]"},{"name":"Host","value":":"}]}`,
		`{"name":"a","kind":"http","port":"80@evil"}`,
	} {
		f.Add([]byte(seed))
	}
	const address = "10.1.2.3:8080"
	f.Fuzz(func(t *testing.T, text []byte) {
		var w abi.Observe
		if json.Unmarshal(text, &w) != nil || abi.CheckObserves([]abi.Observe{w}) != nil || w.Kind != abi.ObserveHTTP {
			return
		}
		r, err := request(t.Context(), address, &w)
		if err != nil {
			t.Fatalf("%s passes the check and cannot be asked: %v", text, err)
		}
		if r.URL.Host != address || r.URL.User != nil {
			t.Fatalf("%s is asked at %s", text, r.URL)
		}
		var sent bytes.Buffer
		if err := r.Write(&sent); err != nil {
			t.Fatalf("%s passes the check and cannot be sent: %v", text, err)
		}
		left := bufio.NewReader(&sent)
		got, err := http.ReadRequest(left)
		if err != nil {
			t.Fatalf("%s is no request: %v", text, err)
		}
		if behind := left.Buffered() + sent.Len(); got.Method != http.MethodGet || got.ContentLength != 0 || behind > 0 {
			t.Fatalf("%s is sent as %s with %d bytes, and %d more behind it", text, got.Method, got.ContentLength, behind)
		}
		// User-Agent and Accept are added by the host, and Cache-Control by the
		// reader, to a Pragma that says as much.
		if len(got.Header) > abi.MaxHeaders+3 {
			t.Fatalf("%s is sent with %d headers", text, len(got.Header))
		}
	})
}
