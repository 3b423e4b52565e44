package ingress

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// readyKey is of the backends of a request, in its context.
type readyKey struct{}

// attempts is to how many backends a request is sent that do not accept it.
const attempts = 3

// transport sends each request to a backend chosen at random, and to another where
// no connection can be made: that one has not seen the request.
type transport struct{ http *http.Transport }

func newTransport() transport {
	return transport{&http.Transport{
		DialContext:         (&net.Dialer{Timeout: connectWithin, KeepAlive: 30 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 32, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		ExpectContinueTimeout: time.Second,
	}}
}

// RoundTrip implements http.RoundTripper. The proxy closes the request's body, which
// may still be sent when the answer begins.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ready, _ := r.Context().Value(readyKey{}).([]netip.AddrPort)
	err := errors.New("nobody is ready")
	for n, at := range rand.Perm(len(ready)) {
		if n == attempts || r.Context().Err() != nil {
			break
		}
		try := r.Clone(r.Context())
		try.URL.Host = ready[at].String()
		if r.Body != nil {
			try.Body = io.NopCloser(r.Body) // the next backend needs it, too
		}
		var answer *http.Response
		if answer, err = t.http.RoundTrip(try); err == nil || !unconnected(err) {
			return answer, err
		}
	}
	return nil, err
}

func unconnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && !errors.Is(err, context.Canceled)
}
