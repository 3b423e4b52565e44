package audit

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Request is one answered request.
type Request struct {
	Begun   time.Time
	Took    time.Duration
	User    user.Info
	About   *apirequest.RequestInfo
	Request *http.Request
	Code    int
	// Annotations are what admission has to say to those who read the log.
	Annotations map[string]string
}

// event is a line; its fields are those of audit.k8s.io/v1 Event.
type event struct {
	Kind       string     `json:"kind"`
	APIVersion string     `json:"apiVersion"`
	Level      string     `json:"level"`
	AuditID    string     `json:"auditID"`
	Stage      string     `json:"stage"`
	RequestURI string     `json:"requestURI"`
	Verb       string     `json:"verb"`
	User       eventUser  `json:"user"`
	SourceIPs  []string   `json:"sourceIPs,omitempty"`
	UserAgent  string     `json:"userAgent,omitempty"`
	ObjectRef  *objectRef `json:"objectRef,omitempty"`
	Response   response   `json:"responseStatus"`
	Received   string     `json:"requestReceivedTimestamp"`
	Stamped    string     `json:"stageTimestamp"`
	// Annotations are admission's.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Dropped counts the lines that did not fit before this one.
	Dropped uint64 `json:"dropped,omitempty"`
}

type eventUser struct {
	Username string   `json:"username"`
	UID      string   `json:"uid,omitempty"`
	Groups   []string `json:"groups,omitempty"`
}

type objectRef struct {
	Resource    string `json:"resource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	APIGroup    string `json:"apiGroup,omitempty"`
	APIVersion  string `json:"apiVersion,omitempty"`
	Subresource string `json:"subresource,omitempty"`
}

type response struct {
	Code int `json:"code"`
}

const stamp = "2006-01-02T15:04:05.000000Z"

// longest bounds what a client chooses to send: paths, names and agents.
const longest = 1024

func eventOf(r *Request, id string) *event {
	e := &event{
		Kind: "Event", APIVersion: "audit.k8s.io/v1", Level: "Metadata", Stage: "ResponseComplete", AuditID: id,
		Response: response{r.Code}, Annotations: r.Annotations,
		Received: r.Begun.UTC().Format(stamp), Stamped: r.Begun.Add(r.Took).UTC().Format(stamp),
	}
	if r.User != nil {
		e.User = eventUser{Username: r.User.GetName(), UID: r.User.GetUID(), Groups: r.User.GetGroups()}
	}
	if q := r.Request; q != nil {
		e.RequestURI, e.UserAgent = cut(plainURI(q.URL)), cut(q.UserAgent())
		e.SourceIPs = []string{hostOf(q.RemoteAddr)}
	}
	if a := r.About; a != nil {
		e.Verb = a.Verb
		if a.IsResourceRequest {
			e.ObjectRef = &objectRef{Resource: a.Resource, Namespace: cut(a.Namespace), Name: cut(a.Name), APIGroup: a.APIGroup, APIVersion: a.APIVersion, Subresource: a.Subresource}
		}
	}
	return e
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

func hostOf(address string) string {
	if i := strings.LastIndexByte(address, ':'); i > 0 {
		return strings.Trim(address[:i], "[]")
	}
	return address
}
