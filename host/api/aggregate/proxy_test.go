package aggregate_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/websocket"
	"k8s.io/client-go/rest"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/berth-dev/berth/host/polltest"
)

// discovering has a backend answer what it serves, and the rest by answer.
func discovering(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, root+"/") {
			things(w, r)
			return
		}
		answer(w, r)
	}
}

func TestABackendsWebSocketsAreCarried(t *testing.T) {
	t.Parallel()
	users := make(chan string, 1)
	c := start(t, sound, discovering(websocket.Server{Handler: func(ws *websocket.Conn) {
		users <- ws.Request().Header.Get("X-Remote-User")
		_, _ = io.Copy(ws, ws)
	}}.ServeHTTP))
	c.register(t, nil)
	c.becomes(t, "True Passed")
	config, err := websocket.NewConfig(strings.Replace(c.URL, "https", "wss", 1)+root+"/namespaces/default/things/a/attach", c.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.TlsConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.TlsConfig.RootCAs.AppendCertsFromPEM(c.CA)
	config.Header.Set("X-Remote-User", "mallory")
	ws, err := config.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.Close() }()
	if who := <-users; who != "system:berth" {
		t.Errorf("the backend was asked as %q", who)
	}
	for _, text := range []string{"one", "two"} {
		got := ""
		if err := websocket.Message.Send(ws, text); err != nil {
			t.Fatal(err)
		}
		if err := websocket.Message.Receive(ws, &got); err != nil || got != text {
			t.Errorf("%q came back as %q, %v", text, got, err)
		}
	}
}

func TestABackendsSPDYIsCarried(t *testing.T) {
	t.Parallel()
	c := start(t, sound, discovering(func(w http.ResponseWriter, r *http.Request) {
		streams := make(chan httpstream.Stream, 1)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if connection == nil {
			return
		}
		s := <-streams
		_, _ = io.Copy(s, s)
		_ = s.Close()
		<-connection.CloseChan()
	}))
	c.register(t, nil)
	c.becomes(t, "True Passed")
	transport, upgrader, err := clientspdy.RoundTripperFor(c.Config(""))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+root+"/namespaces/default/things/a/exec", nil)
	if err != nil {
		t.Fatal(err)
	}
	connection, _, err := clientspdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	s, err := connection.CreateStream(http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, "hello"); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if got, err := io.ReadAll(s); err != nil || string(got) != "hello" {
		t.Errorf("%q came back, %v", got, err)
	}
}

// watcher answers each request with one event, and ends when its client does.
type watcher struct{ began, ended sync.WaitGroup }

func (b *watcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer b.ended.Done()
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintln(w, `{"type":"ADDED","object":{"kind":"Thing"}}`)
	_ = http.NewResponseController(w).Flush()
	b.began.Done()
	<-r.Context().Done()
}

func (b *watcher) expect(n int) { b.began.Add(n); b.ended.Add(n) }

// watch begins one, and is its body once the first event is there.
func (c *cluster) watch(t *testing.T, client *http.Client) io.ReadCloser {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+root+"/things?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(line, `"ADDED"`) {
		t.Fatalf("a watch answers %d %q, %v", answer.StatusCode, line, err)
	}
	return answer.Body
}

// Events of a watch come while it is open, and the backend knows when its watcher
// has gone; with as many of them as a backend may have the next client is told to
// come again.
func TestABackendAnswersSoManyWatchesAndNoMore(t *testing.T) {
	t.Parallel()
	const atOnce = 400
	backend := &watcher{}
	c := start(t, sound, discovering(backend.ServeHTTP))
	c.register(t, nil)
	c.becomes(t, "True Passed")
	client, err := rest.HTTPClientFor(c.Config(""))
	if err != nil {
		t.Fatal(err)
	}
	backend.expect(atOnce)
	var open []io.Closer
	for range atOnce {
		open = append(open, c.watch(t, client))
	}
	backend.began.Wait()
	code, body := c.get(t, root+"/things", nil)
	if code != http.StatusTooManyRequests || body != "too many requests to "+name+"\n" {
		t.Errorf("one more is answered %d %q", code, body)
	}
	if code, _ := c.get(t, "/api/v1/namespaces", nil); code != http.StatusOK {
		t.Errorf("what the host itself serves is answered %d", code)
	}
	for _, body := range open {
		_ = body.Close()
	}
	backend.ended.Wait()
	backend.expect(1)
	polltest.Until(t, "there is room again", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+root+"/things?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		return answer.StatusCode == http.StatusOK
	})
	backend.ended.Wait()
}
