package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// allows lets through what it says of each question.
type allows func(authorizer.Attributes) bool

func (a allows) Authorize(_ context.Context, q authorizer.Attributes) (authorizer.Decision, string, error) {
	if a(q) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func everything(authorizer.Attributes) bool { return true }

// still is a scheduler in which nothing happens.
type still schedule.Glance

func (s still) Glance(context.Context) (schedule.Glance, error) { return schedule.Glance(s), nil }

func (still) Pending(context.Context) ([]schedule.Pending, error) { return nil, nil }

func (still) Held(context.Context) (oldest, next uint64, err error) { return 0, 0, nil }

func (still) Traces() *schedule.Traces { return new(schedule.Traces) }

func (still) At(context.Context, uint64) (*snapshot.View, bool, error) { return nil, false, nil }

var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// at is a console with a clock that a test moves.
func at(now *time.Time) *Console {
	return New(Config{Scheduler: still{}, May: allows(everything), Key: []byte("secret"), Now: func() time.Time { return *now }})
}

// asks is a request of the pages.
func asks(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set(Header, "1")
	return r
}

// code has a user with a certificate make one.
func code(t *testing.T, c *Console, query string, ends time.Time) string {
	t.Helper()
	r := asks(http.MethodPost, CodesPath+query, "")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{NotAfter: ends}}}
	r = r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "ada", Groups: []string{"devs"}}))
	w := httptest.NewRecorder()
	c.makeCode(w, r)
	var answer struct{ Path string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("makeCode answers %d %s", w.Code, w.Body)
	}
	return strings.TrimPrefix(answer.Path, Root+"#code=")
}

// signedIn is the cookie that a code is exchanged for, nil if it is not.
func signedIn(t *testing.T, c *Console, code string) *http.Cookie {
	t.Helper()
	cookie, _ := signedInBy(t, c, code)
	return cookie
}

// signedInBy is the cookie and the key of a session.
func signedInBy(t *testing.T, c *Console, code string) (cookie *http.Cookie, key string) {
	t.Helper()
	w := httptest.NewRecorder()
	c.signIn(w, asks(http.MethodPost, sessionPath, `{"code":"`+code+`"}`))
	cookies := w.Result().Cookies()
	if len(cookies) != 1 {
		return nil, ""
	}
	var answer struct{ Key string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Key == "" {
		t.Fatalf("signing in answers %s", w.Body)
	}
	return cookies[0], answer.Key
}

// of is a request of the pages of a new session.
func of(t *testing.T, c *Console, query string, ends time.Time) *http.Request {
	t.Helper()
	cookie, key := signedInBy(t, c, code(t, c, query, ends))
	r := asks(http.MethodGet, sessionPath, "")
	r.AddCookie(cookie)
	r.Header.Set(Header, key)
	return r
}

func TestACodeIsForOneUseWithinAMinute(t *testing.T) {
	t.Parallel()
	now := began
	c := at(&now)
	once := code(t, c, "", now.Add(time.Hour))
	cookie := signedIn(t, c, once)
	if cookie == nil || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("signing in gives %v, want a cookie that scripts, other origins and plain HTTP do not get", cookie)
	}
	if signedIn(t, c, once) != nil {
		t.Error("a code is good for a second session")
	}
	late := code(t, c, "", now.Add(time.Hour))
	now = now.Add(codeLife)
	if signedIn(t, c, late) != nil {
		t.Error("a code is good after its minute")
	}
	if signedIn(t, c, "") != nil || signedIn(t, c, "AAAA") != nil {
		t.Error("a code that was never given is good")
	}
}

// Hosts beside each other on one machine have sessions of their own.
func TestASessionIsOfOnePort(t *testing.T) {
	t.Parallel()
	now := began
	c := at(&now)
	names := map[string]bool{}
	for _, host := range []string{"localhost:6443", "localhost:7443", "localhost", "[::1]:6443"} {
		w := httptest.NewRecorder()
		r := asks(http.MethodPost, sessionPath, `{"code":"`+code(t, c, "", now.Add(time.Hour))+`"}`)
		r.Host = host
		c.signIn(w, r)
		for _, cookie := range w.Result().Cookies() {
			names[cookie.Name] = true
		}
	}
	if len(names) != 3 {
		t.Errorf("cookies %v, want one for each port, and one for none", names)
	}
}

func TestNoCodeWithoutACertificate(t *testing.T) {
	t.Parallel()
	now := began
	w := httptest.NewRecorder()
	at(&now).makeCode(w, asks(http.MethodPost, CodesPath, ""))
	if w.Code != http.StatusForbidden {
		t.Errorf("makeCode without a certificate = %d, want 403", w.Code)
	}
}

func TestCodesThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	now := began
	c := codes{now: func() time.Time { return now }, open: map[string]pendingCode{}}
	for range maxCodes {
		if _, ok := c.put(session{}); !ok {
			t.Fatal("a code is refused before there are too many")
		}
	}
	if _, ok := c.put(session{}); ok {
		t.Error("one code more than may wait is given")
	}
	now = now.Add(codeLife)
	if _, ok := c.put(session{}); !ok || len(c.open) != 1 {
		t.Errorf("%d codes wait after the old ones' end, want the new one alone", len(c.open))
	}
}

func TestWhoASessionIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(r *http.Request, now *time.Time)
		want   string // empty: nobody
	}{
		{"the user that made the code", func(*http.Request, *time.Time) {}, "ada"},
		{"nobody with a cookie alone, as a pod at another port gets it", func(r *http.Request, _ *time.Time) { r.Header.Set(Header, "1") }, ""},
		{"nobody without the pages' header", func(r *http.Request, _ *time.Time) { r.Header.Del(Header) }, ""},
		{"nobody from another site", func(r *http.Request, _ *time.Time) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, ""},
		{"nobody from a sibling host", func(r *http.Request, _ *time.Time) { r.Header.Set("Sec-Fetch-Site", "same-site") }, ""},
		{"nobody by a WebSocket of another origin", func(r *http.Request, _ *time.Time) {
			toExec(r, "https://evil.example")
		}, ""},
		{"nobody by a WebSocket of another port", func(r *http.Request, _ *time.Time) {
			toExec(r, "https://example.com:8443")
		}, ""},
		{"nobody by a WebSocket without an origin", func(r *http.Request, _ *time.Time) { toExec(r, "") }, ""},
		{"nobody by a WebSocket of a session that only reads", func(r *http.Request, _ *time.Time) {
			toExec(r, "https://example.com")
		}, ""},
		{"nobody in eight hours", func(_ *http.Request, now *time.Time) { *now = now.Add(sessionLife) }, ""},
		{"nobody with a cookie that was changed", func(r *http.Request, _ *time.Time) {
			c, _ := r.Cookie(cookieName)
			text, proof, _ := strings.Cut(c.Value, ".")
			data, _ := encoding.DecodeString(text)
			r.Header.Set("Cookie", cookieName+"="+encoding.EncodeToString(bytes.Replace(data, []byte("devs"), []byte("root"), 1))+"."+proof)
		}, ""},
		{"nobody with half a cookie", func(r *http.Request, _ *time.Time) {
			c, _ := r.Cookie(cookieName)
			text, _, _ := strings.Cut(c.Value, ".")
			r.Header.Set("Cookie", cookieName+"="+text)
		}, ""},
		{"whom the certificate names, where there is one", func(r *http.Request, _ *time.Time) {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := began
			c := at(&now)
			r := of(t, c, "", now.AddDate(1, 0, 0))
			tt.change(r, &now)
			if got := who(c, r); got != tt.want {
				t.Errorf("the request is of %q, want %q", got, tt.want)
			}
		})
	}
}

// toExec makes a request one that opens a WebSocket to a container.
func toExec(r *http.Request, origin string) {
	r.URL.Path = "/api/v1/namespaces/a/pods/b/exec"
	r.Header.Set(protocols, "v5.channel.k8s.io, "+keyProtocol+r.Header.Get(Header))
	r.Header.Del(Header)
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Origin", origin)
}

func TestAWebSocketOfTheConsolesOwnOriginIsOfItsSession(t *testing.T) {
	t.Parallel()
	now := began
	c := at(&now)
	r := of(t, c, "?write=true", now.Add(time.Hour))
	toExec(r, "https://example.com")
	if got := who(c, r); got != "ada" {
		t.Errorf("exec by a session that may write is of %q, want ada", got)
	}
	if got := r.Header.Get(protocols); got != "v5.channel.k8s.io" {
		t.Errorf("the node is told the protocols %q", got)
	}
	r = of(t, c, "?write=true", now.Add(time.Hour))
	r.Header.Set(Header, "1")
	toExec(r, "https://example.com")
	if got := who(c, r); got != "" {
		t.Errorf("exec by the cookie alone is of %q", got)
	}
}

// who is taken for the sender of a request, empty where the console leaves that to
// others.
func who(c *Console, r *http.Request) string {
	others := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, errors.New("nobody")
	})
	response, ok, err := c.Authenticator(others).AuthenticateRequest(r)
	if err != nil || !ok {
		return ""
	}
	return response.User.GetName()
}

func TestASessionEndsWithTheCertificateAndOutlivesTheHost(t *testing.T) {
	t.Parallel()
	now := began
	c := at(&now)
	r := of(t, c, "", now.Add(time.Hour))
	next := at(&now) // another run, with the same key
	if got := who(next, r.Clone(t.Context())); got != "ada" {
		t.Errorf("after a restart the session is of %q, want ada", got)
	}
	next.Key = []byte("another")
	if got := who(next, r.Clone(t.Context())); got != "" {
		t.Errorf("another host takes the session for that of %q", got)
	}
	now = now.Add(time.Hour)
	if got := who(c, r.Clone(t.Context())); got != "" {
		t.Errorf("after the certificate's end the session is of %q", got)
	}
}

func TestASessionOpensWhatThePagesAsk(t *testing.T) {
	t.Parallel()
	const policy = "/apis/policy.berth.dev/v1alpha1/policies/mine"
	for _, tt := range []struct {
		method, path  string
		reads, writes bool // by a session that only reads, and by one that may write
	}{
		{"GET", streamPath, true, true},
		{"GET", policy, true, true},
		{"GET", "/berth/v1/policies", true, true},
		{"GET", "/api/v1/namespaces/a/pods/b/explain", true, true},
		{"PATCH", policy, false, true},
		{"DELETE", policy, false, false},
		{"PATCH", policy + "/status", false, false},
		{"POST", "/apis/policy.berth.dev/v1alpha1/policies", false, true},
		{"POST", "/apis/policy.berth.dev/v1alpha1/modules", false, true},
		{"POST", "/apis/policy.berth.dev/v1alpha1/profiles", false, false},
		{"PATCH", "/apis/policy.berth.dev/v1alpha1/profiles/default", false, true},
		{"PATCH", "/apis/policy.berth.dev/v1alpha1/modules/sha256-00", false, false},
		{"DELETE", "/apis/policy.berth.dev/v1alpha1/profiles/default", false, false},
		{"POST", "/berth/v1/rehearsal", false, true},
		{"POST", "/berth/v1/plan", true, true},
		{"POST", podsPath, true, true},
		{"POST", "/api/v1/namespaces/a/pods?dryRun=All", true, true},
		{"POST", "/api/v1/namespaces/a/pods?dryRun=All&dryRun=", false, false},
		{"POST", "/api/v1/namespaces/a/pods/b?dryRun=All", false, false},
		{"POST", "/api/v1/namespaces/a/services?dryRun=All", false, false},
		{"GET", "/api/v1/namespaces/a/pods/b/log", true, true},
		{"GET", "/api/v1/namespaces/a/pods/b/exec", false, false},
		{"UPGRADE", "/api/v1/namespaces/a/pods/b/exec", false, true},
		{"UPGRADE", "/api/v1/namespaces/a/pods/b/attach", false, false},
		{"UPGRADE", "/api/v1/namespaces/a/pods/b/log", false, false},
		{"UPGRADE", "/api/v1/namespaces/a/pods/b/portforward", false, false},
		{"POST", "/berth/v1/tokens", false, false},
		{"POST", "/api/v1/namespaces/a/pods", false, false},
		{"GET", servicePath, true, true},
		{"GET", "/berth/v1/explain", true, true},
		{"GET", "/berth/v1/explain/x", false, false},
		{"POST", CodesPath, false, false}, // or a session would prolong itself
		{"GET", "/berth/v1/policies/mine/module", false, false},
		{"GET", "/berth/v1/backup", false, false},
		{"GET", "/api/v1/secrets", false, false},
		{"GET", "/api/v1/namespaces/a/pods/b/proxy/explain", false, false},
		{"GET", "/api/v1/namespaces/a/services/pods/b/explain", false, false},
		{"GET", "/api/v1/namespaces/a%2Fpods/b/pods/c/explain", false, false},
	} {
		for _, write := range []bool{false, true} {
			want := tt.reads && !write || tt.writes && write
			r := httptest.NewRequest(strings.Replace(tt.method, "UPGRADE", "GET", 1), tt.path, nil)
			if tt.method == "UPGRADE" {
				r.Header.Set("Upgrade", "websocket")
			}
			if got := (session{Write: write}).opens(r); got != want {
				t.Errorf("%s %s by a session with write=%v: opens = %v, want %v", tt.method, tt.path, write, got, want)
			}
		}
	}
}

func TestPagesLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	for name, file := range assets {
		w := httptest.NewRecorder()
		page(w, httptest.NewRequest(http.MethodGet, Root+name, nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") == "" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, headers %v", name, w.Code, w.Header())
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy of its content is %q", name, csp)
		}
		for _, wrong := range fromElsewhere(name, string(file.data)) {
			t.Error(wrong)
		}
		again := httptest.NewRequest(http.MethodGet, Root+name, nil)
		again.Header.Set("If-None-Match", w.Header().Get("ETag"))
		w = httptest.NewRecorder()
		if page(w, again); w.Code != http.StatusNotModified {
			t.Errorf("%s, asked for again: %d, want 304", name, w.Code)
		}
	}
	w := httptest.NewRecorder()
	if page(w, httptest.NewRequest(http.MethodGet, Root+"../secret", nil)); w.Code != http.StatusNotFound {
		t.Errorf("a page that is not there: %d, want 404", w.Code)
	}
}

var (
	origins = regexp.MustCompile(`(?i)(\w+:)?//[a-z0-9][\w-]*(\.[\w-]+)+`)
	inline  = regexp.MustCompile(`(?i)<script>|<style|[\s"](on\w+|style)="|javascript:|innerHTML|outerHTML|dangerouslySet|document\.write|\beval\(|new Function|@import|import\(`)
)

// fromElsewhere says what of a page would come from another origin, or run without a
// file of its own.
func fromElsewhere(name, text string) (wrong []string) {
	if name == "vendor/LICENSE.txt" {
		return nil // no page loads it
	}
	for _, origin := range origins.FindAllString(text, -1) {
		if origin != "http://www.w3.org" { // the names of SVG's and MathML's elements
			wrong = append(wrong, fmt.Sprintf("%s refers to %s", name, origin))
		}
	}
	if strings.HasPrefix(name, "vendor/") {
		return wrong // it can do what no page asks it for
	}
	for _, found := range inline.FindAllString(text, -1) {
		wrong = append(wrong, fmt.Sprintf("%s has %q", name, found))
	}
	return wrong
}

func TestWhatComesFromElsewhereIsSeen(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`<script src="https://cdn.example.com/x.js"></script>`, `<img src=//example.com/x>`, `fetch("wss://a.example")`,
		`<script>go()</script>`, `<body onload="go()">`, `<p style="color: red">`, `e.innerHTML = x`, `eval(x)`, `@import "x.css"`,
	} {
		if len(fromElsewhere("page.js", text)) == 0 {
			t.Errorf("%s is taken for harmless", text)
		}
	}
	for _, text := range []string{`xmlns="http://www.w3.org/2000/svg"`, `// words: none.`, `style=${{ color }}`} {
		if wrong := fromElsewhere("page.js", text); len(wrong) > 0 {
			t.Errorf("%s is blamed: %q", text, wrong)
		}
	}
}

// TestPagesAreSmall holds the sum of what a browser would load, compressed.
func TestPagesAreSmall(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	for name, file := range assets {
		if name == "vendor/LICENSE.txt" {
			continue
		}
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		_, _ = z.Write(file.data)
		_ = z.Close()
	}
	if n := packed.Len(); n < 10<<10 || n > 120<<10 {
		t.Errorf("the pages have %d bytes, at most %d are wanted", n, 120<<10)
	}
}

// TestVendoredIsWhatWasPinned fails where somebody changes what npm's integrity was
// checked for: .ci/tools/console.sh vendor writes it anew.
func TestVendoredIsWhatWasPinned(t *testing.T) {
	t.Parallel()
	const want = "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7"
	if sum := sha256.Sum256(assets["vendor/preact.js"].data); hex.EncodeToString(sum[:]) != want {
		t.Errorf("vendor/preact.js is %x, want %s", sum, want)
	}
}

func FuzzSession(f *testing.F) {
	now := began
	c := at(&now)
	good, err := c.seal(session{Name: "ada", Until: began.Add(time.Hour)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("e30.AAAA")
	f.Fuzz(func(t *testing.T, value string) {
		r := httptest.NewRequest(http.MethodGet, sessionPath, nil)
		r.Header.Set("Cookie", cookieName+"="+value)
		s, ok := c.session(r)
		if !ok {
			return
		}
		// Whatever is let in was sealed here.
		if again, err := c.seal(s); err != nil || s.Name != "ada" || again != good {
			t.Errorf("%q is taken for a session of %q", value, s.Name)
		}
	})
}
