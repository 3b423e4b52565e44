package api_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/berth-dev/berth/host/api/apitest"
	"github.com/berth-dev/berth/host/api/flowcontrol"
)

// watchesAConnection is what Go's server allows streams.
const watchesAConnection = 200

// openWatches opens watches by bare HTTP/2, so that their client takes next to
// no memory, and waits until all have begun.
func openWatches(t *testing.T, s *apitest.Server, path string, n int) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	address := strings.TrimPrefix(s.URL, "https://")
	for ; n > 0; n -= watchesAConnection {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
			t.Fatal(err)
		}
		framer := http2.NewFramer(conn, conn)
		if err := framer.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		begin(t, framer, address, path, min(n, watchesAConnection))
	}
}

func begin(t *testing.T, framer *http2.Framer, address, path string, n int) {
	t.Helper()
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for i := range n {
		head.Reset()
		for _, f := range []hpack.HeaderField{
			{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: address}, {Name: ":path", Value: path},
			{Name: "user-agent", Value: "kubectl/v1.36.3 (linux/amd64) kubernetes/0000000"}, {Name: "accept", Value: "application/json"},
		} {
			if err := encoder.WriteField(f); err != nil {
				t.Fatal(err)
			}
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
	}
	for begun := 0; begun < n; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := frame.(*http2.HeadersFrame); ok {
			begun++
		}
	}
}

// TestIdleWatchesCostLittle runs alone: it looks at the memory of the process.
func TestIdleWatchesCostLittle(t *testing.T) {
	s := apitest.Start(t)
	const watches, most = 10_000, 20 << 10               // the race detector makes stacks of 8 KiB of those of 4
	openWatches(t, s, "/api/v1/configmaps?watch=1", 200) // what there is but once
	heap, stacks := inUse()
	openWatches(t, s, "/api/v1/pods?watch=1", watches)
	for range 4 { // a stack shrinks by half at a time
		runtime.GC()
	}
	heapAfter, stacksAfter := inUse()
	ofHeap, ofStacks := (heapAfter-heap)/watches, (stacksAfter-stacks)/watches
	t.Logf("an idle watch takes %d bytes of heap and %d of stacks", ofHeap, ofStacks)
	if ofHeap+ofStacks > most {
		t.Errorf("an idle watch takes %d bytes, want less than %d", ofHeap+ofStacks, most)
	}
	createPods(t, client(t, s, ""), "a")
	if code, _ := send(t, httpClient(t, s), http.MethodGet, s.URL+"/api/v1/namespaces/default/pods/a", "", "", ""); code != 200 {
		t.Errorf("a pod created beside %d watches: %d", watches, code)
	}
}

func TestAClientMayHaveSoManyWatchesOpen(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, apitest.With(func(p *apitest.Parts) { p.API.Fairness = flowcontrol.New(flowcontrol.Defaults(2), 2) }))
	c := httpClient(t, s)
	open := func() *http.Response { return watchOf(t, c, s.URL+"/api/v1/pods") }
	first := open()
	if second := open(); first.StatusCode != 200 || second.StatusCode != 200 {
		t.Fatalf("two watches: %d, %d", first.StatusCode, second.StatusCode)
	}
	third := open()
	body, _ := io.ReadAll(third.Body)
	if third.StatusCode != http.StatusTooManyRequests || third.Header.Get("Retry-After") == "" ||
		!strings.Contains(string(body), "--max-streams") || !strings.Contains(string(body), `"reason":"TooManyRequests"`) {
		t.Fatalf("a third watch: %d %s, want 429 that says what to do", third.StatusCode, body)
	}
	if code, _ := send(t, c, http.MethodGet, s.URL+"/api/v1/pods", "", "", ""); code != 200 {
		t.Errorf("a list beside them: %d", code)
	}
	_ = first.Body.Close()
	for again := open(); again.StatusCode != 200; again = open() { // the server hears of it in a moment
		_ = again.Body.Close()
	}
}

// inUse is the memory of objects and stacks that are alive.
func inUse() (heap, stacks int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}
