package audit

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Request is one answered request.
type Request struct {
	// ID is what the request calls itself, or else is called.
	ID    string
	Begun time.Time
	Took  time.Duration
	// User is who sent it, nil where nobody knows; Impersonated is as whom it was
	// answered, nil where that is the same.
	User, Impersonated user.Info

	About   *apirequest.RequestInfo
	Request *http.Request
	Code    int
	// Annotations are what admission has to say to those who read the log.
	Annotations map[string]string
}

// dropped is the annotation that counts the lines that did not fit before this one.
const dropped = "audit.berth.dev/dropped"

// longest bounds what a client chooses to send: paths, names and agents.
const longest = 1024

func eventOf(r *Request) *auditv1.Event {
	e := &auditv1.Event{
		TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: auditv1.SchemeGroupVersion.String()},
		Level:    auditv1.LevelMetadata, Stage: auditv1.StageResponseComplete, AuditID: types.UID(cut(r.ID)),
		ResponseStatus: &metav1.Status{Code: int32(r.Code)}, Annotations: r.Annotations,
		RequestReceivedTimestamp: metav1.NewMicroTime(r.Begun), StageTimestamp: metav1.NewMicroTime(r.Begun.Add(r.Took)),
	}
	if r.User != nil {
		e.User = userOf(r.User)
	}
	if r.Impersonated != nil {
		who := userOf(r.Impersonated)
		e.ImpersonatedUser = &who
	}
	if q := r.Request; q != nil {
		e.RequestURI, e.UserAgent = cut(plainURI(q.URL)), cut(q.UserAgent())
		e.SourceIPs = []string{hostOf(q.RemoteAddr)}
	}
	if a := r.About; a != nil {
		e.Verb = a.Verb
		if a.IsResourceRequest {
			e.ObjectRef = &auditv1.ObjectReference{Resource: a.Resource, Namespace: cut(a.Namespace), Name: cut(a.Name), APIGroup: a.APIGroup, APIVersion: a.APIVersion, Subresource: a.Subresource}
		}
	}
	return e
}

func userOf(who user.Info) authenticationv1.UserInfo {
	u := authenticationv1.UserInfo{Username: cut(who.GetName()), UID: cut(who.GetUID()), Groups: cutAll(who.GetGroups())}
	for key, values := range who.GetExtra() {
		if u.Extra == nil {
			u.Extra = map[string]authenticationv1.ExtraValue{}
		}
		u.Extra[cut(key)] = cutAll(values)
	}
	return u
}

// kept are the query's parts that say what was asked for, and never contents: a
// command line of exec may hold a password.
var kept = []string{
	"watch", "limit", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "dryRun",
	"fieldManager", "fieldValidation", "container", "follow", "tailLines", "previous", "timeoutSeconds", "propagationPolicy",
}

func plainURI(u *url.URL) string {
	query := url.Values{}
	for name, values := range u.Query() {
		if slices.Contains(kept, name) {
			query[name] = values
		}
	}
	if len(query) == 0 {
		return u.EscapedPath()
	}
	return u.EscapedPath() + "?" + query.Encode()
}

func cut(text string) string {
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

func cutAll(texts []string) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = cut(texts[i])
	}
	return texts
}

func hostOf(address string) string {
	if i := strings.LastIndexByte(address, ':'); i > 0 {
		return strings.Trim(address[:i], "[]")
	}
	return address
}
