package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// cookieName has a prefix by which browsers keep it to this host and to TLS.
	cookieName = "__Host-berth-console"
	// Header is on each request of the pages, with the session's key. No other
	// origin's page can set it, and the cookie alone does nothing: a browser sends
	// that by itself, also to pods that serve at other ports of the host's name.
	Header = "Berth-Console"
	// keyProtocol is before the key where a WebSocket opens, among its protocols.
	keyProtocol = "berth-console."
	// sessionLife is how long one holds, codeLife how long a code waits for its use.
	sessionLife = 8 * time.Hour
	codeLife    = time.Minute
	// maxCookie is what browsers keep, maxCodes how many codes may wait.
	maxCookie = 4000
	maxCodes  = 1000
)

// session is who is signed in.
type session struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
	Until  time.Time           `json:"until"`
	// Write lets it change what RBAC lets its user change.
	Write bool `json:"write,omitempty"`
	// Key is the hash of what its pages have beside the cookie.
	Key []byte `json:"key"`
}

// holds says whether a key is the session's.
func (s session) holds(key string) bool {
	sum := sha256.Sum256([]byte(key))
	return hmac.Equal(sum[:], s.Key)
}

var encoding = base64.RawURLEncoding

// seal writes a session as the value of a cookie: itself, and what proves that it
// is one of this host's.
func (c *Console) seal(s session) (string, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	value := encoding.EncodeToString(data) + "." + encoding.EncodeToString(c.proof(data))
	if len(value) > maxCookie {
		return "", errors.New("this user is in too many groups for a session")
	}
	return value, nil
}

func (c *Console) proof(data []byte) []byte {
	mac := hmac.New(sha256.New, c.Key)
	mac.Write(data)
	return mac.Sum(nil)
}

// session is that of a request's cookie, if it holds.
func (c *Console) session(r *http.Request) (s session, ok bool) {
	cookie, err := r.Cookie(nameOf(r))
	if err != nil {
		return s, false
	}
	text, proof, _ := strings.Cut(cookie.Value, ".")
	data, err := encoding.DecodeString(text)
	if err != nil {
		return s, false
	}
	given, err := encoding.DecodeString(proof)
	if err != nil || !hmac.Equal(given, c.proof(data)) || json.Unmarshal(data, &s) != nil {
		return s, false
	}
	return s, c.Now().Before(s.Until)
}

// Authenticator takes requests of the pages for those of their session's user, and
// leaves all others to next.
func (c *Console) Authenticator(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if s, ok := c.session(r); ok && fromPages(r) && s.opens(r) && s.holds(takeKey(r)) {
			who := &user.DefaultInfo{Name: s.Name, UID: s.UID, Groups: s.Groups, Extra: s.Extra}
			return &authenticator.Response{User: who}, true, nil
		}
		return next.AuthenticateRequest(r)
	})
}

// fromPages says whether a request was sent by a script of this origin. No script can
// set a header of a WebSocket, whose origin the browser tells instead.
func fromPages(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "" && site != "same-origin" {
		return false
	}
	if upgrades(r) {
		return r.Header.Get("Origin") == "https://"+r.Host
	}
	return r.Header.Get(Header) != ""
}

// takeKey takes the session's key out of a request, which may go on to a node.
func takeKey(r *http.Request) (key string) {
	if !upgrades(r) {
		defer r.Header.Del(Header)
		return r.Header.Get(Header)
	}
	var others []string
	for protocol := range strings.SplitSeq(r.Header.Get(protocols), ",") {
		protocol = strings.TrimSpace(protocol)
		if found, ok := strings.CutPrefix(protocol, keyProtocol); ok {
			key = found
		} else {
			others = append(others, protocol)
		}
	}
	r.Header.Set(protocols, strings.Join(others, ", "))
	return key
}

const protocols = "Sec-WebSocket-Protocol"

func upgrades(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

const policiesAPI = "/apis/policy.berth.dev/v1alpha1/"

// opens says whether a request is one of those that the pages make. Proxies above
// all are not: what a pod answers there would be of the console's own origin.
func (s session) opens(r *http.Request) bool {
	path := r.URL.Path
	switch {
	case r.URL.RawPath != "" || r.TLS != nil && len(r.TLS.PeerCertificates) > 0:
		return false
	case upgrades(r):
		return s.Write && r.Method == http.MethodGet && isOfPod(path, "exec")
	case r.Method == http.MethodPatch:
		return s.Write && (isOneOf(policiesAPI+"policies/", path) || isOneOf(policiesAPI+"profiles/", path))
	case r.Method == http.MethodPost:
		return s.posts(path, r.URL.RawQuery)
	case r.Method != http.MethodGet:
		return false
	case strings.HasPrefix(path, Root), strings.HasPrefix(path, policiesAPI), path == "/berth/v1/policies", path == "/berth/v1/explain":
		return true
	}
	return isOfPod(path, "explain") || isOfPod(path, "log")
}

// posts says what may be posted: by every session what writes nothing.
func (s session) posts(path, query string) bool {
	switch path {
	case podsPath, "/berth/v1/plan":
		return true
	case policiesAPI + "modules", policiesAPI + "policies", "/berth/v1/rehearsal":
		return s.Write
	}
	parts := strings.Split(path, "/") // "", api, v1, namespaces, NAMESPACE, pods
	return strings.HasPrefix(path, "/api/v1/namespaces/") && len(parts) == 6 && parts[5] == "pods" && query == "dryRun=All"
}

// isOfPod says whether a path is that of a part of a pod.
func isOfPod(path, part string) bool {
	parts := strings.Split(path, "/") // "", api, v1, namespaces, NAMESPACE, pods, NAME, part
	return strings.HasPrefix(path, "/api/v1/namespaces/") && len(parts) == 8 && parts[5] == "pods" && parts[7] == part
}

// isOneOf says whether a path is that of one object, and of no part of it.
func isOneOf(folder, path string) bool {
	name, ok := strings.CutPrefix(path, folder)
	return ok && name != "" && !strings.Contains(name, "/")
}

// codes are those that wait to be made a session of, each once.
type codes struct {
	now  func() time.Time
	mu   sync.Mutex
	open map[string]pendingCode
}

type pendingCode struct {
	session session
	until   time.Time
}

func (c *codes) put(s session) (name string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, one := range c.open {
		if !c.now().Before(one.until) {
			delete(c.open, name)
		}
	}
	if len(c.open) >= maxCodes {
		return "", false
	}
	name = rand.Text()
	c.open[name] = pendingCode{s, c.now().Add(codeLife)}
	return name, true
}

func (c *codes) take(name string) (s session, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, ok := c.open[name]
	delete(c.open, name)
	return one.session, ok && c.now().Before(one.until)
}

// makeCode answers POST /console/v1/codes?write=true: a code that makes whoever
// has it the user that asks. It wants a certificate, whose end is the session's
// end, too: a token may be withdrawn, and the session would not know.
func (c *Console) makeCode(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		http.Error(w, "a console's session is made by a client certificate: use a kubeconfig that has one", http.StatusForbidden)
		return
	}
	who, _ := request.UserFrom(r.Context())
	s := session{Name: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: who.GetExtra(), Write: r.URL.Query().Get("write") == "true"}
	s.Until = c.Now().Add(sessionLife)
	if end := r.TLS.PeerCertificates[0].NotAfter; end.Before(s.Until) {
		s.Until = end
	}
	if _, err := c.seal(s); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	name, ok := c.codes.put(s)
	if !ok {
		http.Error(w, "too many codes wait for their use: try again in a minute", http.StatusTooManyRequests)
		return
	}
	answer(w, map[string]string{"path": Root + "#code=" + name})
}

// signIn answers POST /console/v1/session with a cookie and a key, for a code.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	var given struct{ Code string }
	if !fromPages(r) || json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&given) != nil {
		http.Error(w, "sign in by the address that `berth console` prints", http.StatusBadRequest)
		return
	}
	s, ok := c.codes.take(given.Code)
	if !ok {
		http.Error(w, "this code was used, or is older than a minute: run `berth console` again", http.StatusForbidden)
		return
	}
	key := rand.Text()
	sum := sha256.Sum256([]byte(key))
	s.Key = sum[:]
	value, err := c.seal(s)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	http.SetCookie(w, cookie(r, value, s.Until))
	answer(w, map[string]string{"key": key})
}

// signOut answers DELETE /console/v1/session.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if !fromPages(r) {
		http.Error(w, "sign out by the console's page", http.StatusBadRequest)
		return
	}
	http.SetCookie(w, cookie(r, "", time.Unix(1, 0)))
	w.WriteHeader(http.StatusNoContent)
}

// nameOf is the cookie's name, which has the port: hosts beside each other on one
// machine would take each other's place.
func nameOf(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return cookieName + "-" + port
	}
	return cookieName
}

func cookie(r *http.Request, value string, until time.Time) *http.Cookie {
	return &http.Cookie{Name: nameOf(r), Value: value, Path: "/", Expires: until, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}
