package main

import (
	"net"
	"strings"
	"testing"
)

func TestPortsOfIngressesAreCheckedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		http, https int
		want        string
	}{
		{80, 443, ""}, {0, 443, "--ingress-http-port 0: want 1 to 65535"}, {80, 65536, "--ingress-https-port 65536: want 1 to 65535"},
		{8080, 8080, "are both 8080: want two ports"},
	} {
		err := (&ingressFlags{http: c.http, https: c.https}).parse()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d and %d: %v, want %q", c.http, c.https, err, c.want)
		}
	}
}

func TestATakenPortOfIngressesIsTold(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	if in, err := (&ingressFlags{http: port}).listen(t.Context()); err != nil || in.HTTP != nil {
		t.Errorf("without --ingress: %+v, %v", in, err)
	}
	_, err = (&ingressFlags{on: true, http: port}).listen(t.Context())
	if err == nil || !strings.Contains(err.Error(), "free the port, or give another by --ingress-http-port") {
		t.Errorf("the error is %v", err)
	}
}
