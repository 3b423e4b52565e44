package api

import (
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/wire"
	"github.com/berth-dev/berth/host/store"

	"github.com/labstack/echo/v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var errNoForm = errors.New("there is no form for this")

// spoiledList is a long list of which one item cannot be encoded.
func spoiledList(k *call) error {
	k.warn("beware")
	t, err := k.typed(false)
	if err != nil {
		return err
	}
	page := &wire.Page{Items: make([]store.Object, 2*fewItems), Meta: metav1.ListMeta{}}
	page.Shared = func(i int, _ string, _ func(store.Object) ([]byte, error)) ([]byte, error) {
		if i == fewItems {
			return nil, errNoForm
		}
		return []byte("{}"), nil
	}
	return k.page(&t, page)
}

// broken answers with a piece and then goes wrong.
func broken(wrong func() error) func(*call) error {
	return func(k *call) error {
		k.header("application/json")
		out, _ := k.stream(http.StatusOK)
		if _, err := io.WriteString(out, `{"kind":"List","items":[`); err != nil {
			return err
		}
		k.w.Flush()
		return wrong()
	}
}

// serveOne is a server with a single answer.
func serveOne(t *testing.T, answer func(*call) error) (url string, audited *atomic.Int32) {
	t.Helper()
	audited = new(atomic.Int32)
	s := &server{Config: Config{Log: slog.New(slog.DiscardHandler), Audit: func(*Audited) { audited.Add(1) }}, echo: echo.New()}
	pods := kind.MustStored("pods")
	s.echo.GET("/", s.serve(target{kind: pods, version: corev1.SchemeGroupVersion, verb: "get"}, answer))
	served := httptest.NewServer(s.echo)
	t.Cleanup(served.Close)
	return served.URL, audited
}

func fetch(t *testing.T, url, encoding string) (*http.Response, []byte, error) {
	t.Helper()
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("Accept-Encoding", encoding) // so that the client leaves the body as it came
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, body, err
}

func TestAListThatCannotBeEncodedIsAnsweredByAReadableStatus(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"gzip", "identity"} {
		url, audited := serveOne(t, spoiledList)
		answer, body, err := fetch(t, url, encoding)
		if err != nil || answer.StatusCode != http.StatusInternalServerError || audited.Load() != 1 {
			t.Errorf("%s: %d, %v, audited %d times; want 500, once", encoding, answer.StatusCode, err, audited.Load())
		}
		if of := answer.Header.Get("Content-Encoding"); of != "" || !strings.Contains(string(body), errNoForm.Error()) {
			t.Errorf("%s: a body of encoding %q is %q", encoding, of, body)
		}
		if warnings := answer.Header.Values("Warning"); len(warnings) != 1 {
			t.Errorf("%s: warnings = %q, want one", encoding, warnings)
		}
	}
}

// What breaks off must not look as if it were whole.
func TestAnAnswerThatGoesWrongHalfwayIsBrokenOff(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]func() error{
		"an error":           func() error { return errNoForm },
		"a panic":            func() error { panic(errNoForm) },
		"an abort of others": func() error { panic(http.ErrAbortHandler) },
	} {
		for _, encoding := range []string{"gzip", "identity"} {
			url, audited := serveOne(t, broken(wrong))
			answer, _, err := fetch(t, url, encoding)
			if answer.StatusCode != http.StatusOK || !errors.Is(err, io.ErrUnexpectedEOF) || audited.Load() != 1 {
				t.Errorf("%s, %s: %d, %v, audited %d times; want 200, unexpected EOF, once", name, encoding, answer.StatusCode, err, audited.Load())
			}
		}
	}
}

func TestAStreamIsCompressedWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	url, _ := serveOne(t, func(k *call) error {
		out, finish := k.stream(http.StatusOK)
		if _, err := io.WriteString(out, "text"); err != nil {
			return err
		}
		return finish()
	})
	answer, body, err := fetch(t, url, "gzip")
	if err != nil || answer.Header.Get("Content-Encoding") != "gzip" || answer.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("headers = %v, %v", answer.Header, err)
	}
	plain, err := gzip.NewReader(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(plain); err != nil || string(text) != "text" {
		t.Errorf("body = %q, %v", text, err)
	}
}
