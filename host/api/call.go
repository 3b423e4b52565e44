package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/wire"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// target is where a route leads.
type target struct {
	kind    *kind.Kind
	version schema.GroupVersion
	sub     string
	verb    string
	// streams run for long and count as begun, not as running.
	stream bool
}

// call is one request on its way.
//
// It is large because each verb is a file, and what all of them need of a
// request, its rights and its answer is here.
type call struct {
	server *server
	echo   echo.Context
	w      *echo.Response
	r      *http.Request
	place  *target
	info   *apirequest.RequestInfo
	// id is what the audit log calls the request.
	id string
	// sender is who asks, as user.
	sender, user user.Info

	query    query
	warnings []string
	// annotations go into the audit log.
	annotations map[string]string
	begun       time.Time
	leave       func()
	turn        func(write func()) // of a watch
	// watching is set once a watch has begun.
	watching *watchStream
}

func (s *server) begin(c echo.Context, at *target) *call {
	k := &call{server: s, echo: c, w: c.Response(), r: c.Request(), place: at, begun: time.Now(), leave: func() {}, turn: func(write func()) { write() }}
	k.query = parseQuery(k.r.URL.RawQuery)
	if k.id = k.r.Header.Get(auditv1.HeaderAuditID); k.id == "" {
		k.id = uuid.NewString()
	}
	k.w.Header().Set(auditv1.HeaderAuditID, k.id)
	k.info = k.describe()
	return k
}

// serve makes an echo handler of one that may fail.
func (s *server) serve(at target, answer func(*call) error) echo.HandlerFunc {
	if at.verb == "list" {
		return s.serveListOrWatch(&at, answer)
	}
	one := func(c echo.Context) { s.run(c, &at, answer) }
	if at.stream || at.kind == nil {
		return func(c echo.Context) error { one(c); return nil }
	}
	return func(c echo.Context) error {
		workers.do(func() { one(c) })
		return nil
	}
}

// run answers, or begins the watch that goes on with k.watching.
func (s *server) run(c echo.Context, at *target, answer func(*call) error) (k *call) {
	k = s.begin(c, at)
	defer k.end()
	cancel, err := k.bound()
	defer cancel()
	if err == nil {
		err = k.pass()
	}
	if err == nil {
		err = answer(k)
	}
	if err != nil {
		k.fail(err)
	}
	return k
}

// end recovers from a panic, which must not take the host down, and reports.
func (k *call) end() {
	if p := recover(); p != nil {
		k.watching = nil
		if k.panicked(p) {
			defer panic(http.ErrAbortHandler)
		}
	}
	if k.watching != nil {
		return // it has only begun
	}
	k.leave()
	if k.server.Audit != nil {
		k.server.Audit(k.audited())
	}
}

func (k *call) audited() *Audited {
	a := &Audited{ID: k.id, Begun: k.begun, Took: time.Since(k.begun), User: k.sender, About: k.info, Request: k.r, Code: k.w.Status, Annotations: k.annotations}
	if k.user != k.sender {
		a.Impersonated = k.user
	}
	return a
}

// panicked answers, or says that the answer must be broken off since a part of it
// is sent: an end in good order would say that this was all.
func (k *call) panicked(p any) (breakOff bool) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	k.server.Log.Error("panic while answering", "verb", k.info.Verb, "path", k.r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if k.w.Committed {
		return true
	}
	k.fail(apierrors.NewInternalError(errors.New("internal error: the host's log tells more")))
	return false
}

// describe is what the authorizer, fairness and the audit log see.
func (k *call) describe() *apirequest.RequestInfo {
	info := &apirequest.RequestInfo{Path: k.r.URL.Path, Verb: strings.ToLower(k.r.Method)}
	at := k.place
	if at == nil || at.kind == nil {
		return info
	}
	info.IsResourceRequest = true
	info.Verb = at.verb
	info.APIPrefix = "apis"
	if at.version.Group == "" {
		info.APIPrefix = "api"
	}
	info.APIGroup, info.APIVersion = at.version.Group, at.version.Version
	info.Resource, info.Subresource = at.kind.Resource, at.sub
	info.Namespace, info.Name = k.param("namespace"), k.param("name")
	if at.kind.StoreName() == "namespaces" {
		info.Namespace = info.Name
	}
	if at.verb == "list" || at.verb == "deletecollection" {
		info.LabelSelector, info.FieldSelector = k.query.get("labelSelector"), k.query.get("fieldSelector")
		if at.verb == "list" && k.query.flag("watch") {
			info.Verb = "watch"
		}
		info.Name = nameIn(info.FieldSelector)
	}
	return info
}

// nameIn finds the one name that a field selector asks for, since rules may
// allow to list or watch just that. It is read as the list reads it: what looks
// like a name may be a part of another field's value.
func nameIn(text string) string {
	if text == "" {
		return ""
	}
	selector, err := fields.ParseSelector(text)
	if err != nil {
		return ""
	}
	name, _ := selector.RequiresExactMatch("metadata.name")
	if len(content.IsPathSegmentName(name)) > 0 {
		return ""
	}
	return name
}

func (k *call) param(name string) string {
	value := k.echo.Param(name)
	if k.r.URL.RawPath == "" || !strings.Contains(value, "%") {
		return value
	}
	if plain, err := unescape(value); err == nil {
		return plain
	}
	return value
}

// pass finds out who asks, whether they may, and when.
func (k *call) pass() error {
	if err := k.authenticate(); err != nil {
		return err
	}
	if err := k.authorize(); err != nil {
		return err
	}
	if k.server.Fairness == nil {
		return nil
	}
	leave, err := k.server.Fairness.Enter(k.r.Context(), k.user, k.info)
	if err != nil {
		if errors.As(err, new(apierrors.APIStatus)) {
			return err
		}
		return apierrors.NewTooManyRequests(err.Error(), 1)
	}
	if k.info.Verb == "watch" || (k.place != nil && k.place.stream) {
		leave()
		if leave, k.turn, err = k.server.Fairness.Hold(k.user); err != nil {
			return err
		}
	}
	k.leave = leave
	return nil
}

func (k *call) authenticate() error {
	if k.server.Authenticator == nil {
		k.sender, k.user = registry.Host, registry.Host
		return nil
	}
	answer, ok, err := k.server.Authenticator.AuthenticateRequest(k.r)
	if errors.As(err, new(apierrors.APIStatus)) {
		return err
	}
	if err != nil || !ok || answer == nil {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	k.sender = answer.User
	k.r.Header.Del("Authorization")
	who := k.sender
	if k.server.Impersonate != nil {
		if who, err = k.server.Impersonate(k.r, k.sender); err != nil {
			return err
		}
	}
	k.user = who
	k.r = k.r.WithContext(authenticator.WithAudiences(apirequest.WithUser(k.r.Context(), k.user), answer.Audiences))
	return nil
}

func (k *call) authorize() error {
	return k.may(k.attributes())
}

// mayCreate asks for the right that a PUT or an apply needs beside its own if it
// finds nothing there.
func (k *call) mayCreate() error {
	attributes := k.attributes()
	attributes.Verb = "create"
	return k.may(attributes)
}

func (k *call) may(attributes authorizer.AttributesRecord) error {
	if k.server.Authorizer == nil {
		return nil
	}
	decision, reason, err := k.server.Authorizer.Authorize(k.r.Context(), attributes)
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		k.server.Log.Debug("authorizer", "err", err)
	}
	return Forbidden(attributes, reason)
}

func (k *call) attributes() authorizer.AttributesRecord {
	i := k.info
	a := authorizer.AttributesRecord{
		User: k.user, Verb: i.Verb, Namespace: i.Namespace, APIGroup: i.APIGroup, APIVersion: i.APIVersion,
		Resource: i.Resource, Subresource: i.Subresource, Name: i.Name, ResourceRequest: i.IsResourceRequest, Path: i.Path,
	}
	if i.FieldSelector != "" {
		// What a machine may list and watch hangs on it.
		selector, err := fields.ParseSelector(i.FieldSelector)
		if err != nil {
			a.FieldSelectorParsingErr = err
			return a
		}
		a.FieldSelectorRequirements = selector.Requirements()
	}
	return a
}

// request is the operation that the call asks of the registry.
func (k *call) request() (*registry.Request, error) {
	r := &registry.Request{
		Kind: k.place.kind, Version: k.place.version, Subresource: k.place.sub,
		Namespace: k.param("namespace"), Name: k.param("name"), User: k.user,
		Manager: k.query.get("fieldManager"), Agent: k.r.UserAgent(),
		FieldValidation: k.query.get("fieldValidation"), Warn: k.warn, MayCreate: k.mayCreate,
	}
	if k.server.Audit != nil {
		r.Annotate = k.annotate
	}
	return r, k.query.write(r)
}

func (k *call) annotate(key, value string) {
	if k.annotations == nil {
		k.annotations = map[string]string{}
	}
	k.annotations[key] = value
}

// longestWarning and maxWarnings keep headers within what clients accept.
const (
	longestWarning = 1024
	maxWarnings    = 16
)

func (k *call) warn(text string) {
	if len(k.warnings) >= maxWarnings {
		return
	}
	if len(text) > longestWarning {
		text = text[:longestWarning]
	}
	for _, had := range k.warnings {
		if had == text {
			return
		}
	}
	k.warnings = append(k.warnings, text)
}

// header sets what comes before an answer's body.
func (k *call) header(contentType string) {
	h := k.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, private")
	h.Del("Warning") // of an answer that an error takes the place of
	for _, text := range k.warnings {
		if value, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
			h.Add("Warning", value)
		}
	}
}

// fail answers with a Status. What has begun to be sent is broken off.
func (k *call) fail(err error) {
	if k.w.Committed {
		panic(http.ErrAbortHandler)
	}
	status := statusOf(err)
	if status.Code >= 500 {
		k.server.Log.Warn("answer with an error", "verb", k.info.Verb, "path", k.r.URL.Path, "code", status.Code, "err", err)
	}
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		k.w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	k.status(int(status.Code), status)
}

func (k *call) status(code int, status *metav1.Status) {
	status.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Status"})
	f, err := wire.Negotiate(k.r.Header.Get("Accept"), wire.Offer{Protobuf: true, Shapes: true})
	if err != nil || f.As != wire.Whole {
		f = wire.Format{}
	}
	data, err := wire.Any(f, status)
	if err != nil {
		data, f = []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure"}`), wire.Format{}
	}
	k.header(f.ContentType())
	k.w.WriteHeader(code)
	_, _ = k.w.Write(data)
}

// bound gives the request the time that its client allows it. Watches and streams
// have as long as they like.
func (k *call) bound() (cancel context.CancelFunc, err error) {
	text := k.query.get("timeout")
	if text == "" || k.info.Verb == "watch" || k.place.stream {
		return func() {}, nil
	}
	allowed, err := time.ParseDuration(text)
	if err != nil {
		return func() {}, apierrors.NewBadRequest("the timeout in the query: " + err.Error())
	}
	if allowed <= 0 || allowed >= longestCall {
		return func() {}, nil
	}
	ctx, cancel := context.WithDeadline(k.r.Context(), k.begun.Add(allowed))
	k.r = k.r.WithContext(ctx)
	return cancel, nil
}

// longestCall is how long a request may work that is not a stream.
const longestCall = time.Minute

// context bounds how long a request may work that is not a stream.
func (k *call) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(k.r.Context(), longestCall)
}
