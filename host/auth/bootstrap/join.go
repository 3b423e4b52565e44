package bootstrap

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/auth/authn"
	"github.com/berth-dev/berth/host/auth/authz"
	"github.com/berth-dev/berth/host/auth/ca"
	"github.com/berth-dev/berth/host/auth/view"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Path is where machines join.
const Path = "/berth/v1/join"

// Bounds of a join.
const (
	maxBody      = 64 << 10
	maxAddresses = 32
	nodeLife     = 90 * 24 * time.Hour
)

// Config is what joining stands on; all but Log are required.
type Config struct {
	Who     authenticator.Request
	Objects view.Objects
	// Clients signs the machines' client certificates, Servers those of their
	// servers.
	Clients, Servers *ca.Authority
	Now              func() time.Time
	Log              *slog.Logger
}

// Request is the body of a join.
type Request struct {
	NodeName   string `json:"nodeName"`
	ClientCSR  string `json:"clientCSR"`
	ServingCSR string `json:"servingCSR"`
}

// Response is the answer to a join.
type Response struct {
	ClientCertificate  string `json:"clientCertificate"`
	ServingCertificate string `json:"servingCertificate"`
	CACertificate      string `json:"caCertificate"`
}

// Handler answers joins.
type Handler struct {
	config Config
	names  names
}

// New makes a handler for Path.
func New(c Config) *Handler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Handler{config: c}
}

var nodes = schema.GroupResource{Resource: "nodes"}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, apierrors.NewMethodNotSupported(nodes, r.Method))
		return
	}
	who, _, err := h.config.Who.AuthenticateRequest(r)
	if err != nil {
		h.config.Log.Info("join refused", "from", r.RemoteAddr, "err", err)
		refuse(w, apierrors.NewUnauthorized("Unauthorized: join with a bootstrap token that holds; make one with `berth token create`"))
		return
	}
	ask, err := read(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	answer, err := h.join(r.Context(), who.User, ask)
	if err != nil {
		h.config.Log.Info("join refused", "node", ask.name, "from", r.RemoteAddr, "err", err)
		refuse(w, err)
		return
	}
	h.config.Log.Info("machine has certificates", "node", ask.name, "by", who.User.GetName(), "from", r.RemoteAddr)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a machine that went away asks again
}

// joinRequest is a join whose form is good.
type joinRequest struct {
	name            string
	client, serving *x509.CertificateRequest
}

func read(w http.ResponseWriter, r *http.Request) (*joinRequest, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, apierrors.NewBadRequest("expected Content-Type: application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("the body broke off")
	}
	return parse(body)
}

// parse reads the body of a join; errors are the API's.
func parse(body []byte) (*joinRequest, error) {
	var req Request
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&req); err != nil {
		return nil, apierrors.NewBadRequest("the body is no join request: " + err.Error())
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, apierrors.NewBadRequest("the body goes on behind the join request")
	}
	if problems := validation.IsDNS1123Subdomain(req.NodeName); len(problems) > 0 {
		return nil, apierrors.NewBadRequest("nodeName: " + strings.Join(problems, "; "))
	}
	client, err := ca.ParseRequest([]byte(req.ClientCSR))
	if err != nil {
		return nil, apierrors.NewBadRequest("clientCSR: " + err.Error())
	}
	serving, err := ca.ParseRequest([]byte(req.ServingCSR))
	if err != nil {
		return nil, apierrors.NewBadRequest("servingCSR: " + err.Error())
	}
	if len(serving.IPAddresses) > maxAddresses {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("servingCSR: %d addresses: %d at most", len(serving.IPAddresses), maxAddresses))
	}
	return &joinRequest{name: req.NodeName, client: client, serving: serving}, nil
}

func (h *Handler) join(ctx context.Context, who user.Info, ask *joinRequest) (*Response, error) {
	if err := h.may(ctx, who, ask); err != nil {
		return nil, err
	}
	client, err := h.config.Clients.Sign(ask.client, ca.Subject{
		Name: authz.NodeUser(ask.name), Groups: []string{user.NodesGroup}, Life: nodeLife,
	})
	if err != nil {
		return nil, apierrors.NewBadRequest("clientCSR: " + err.Error())
	}
	serving, err := h.config.Servers.Sign(ask.serving, ca.Subject{
		Name: authz.NodeUser(ask.name), Groups: []string{user.NodesGroup},
		DNS: []string{ask.name}, IPs: ask.serving.IPAddresses, Life: nodeLife,
	})
	if err != nil {
		return nil, apierrors.NewBadRequest("servingCSR: " + err.Error())
	}
	return &Response{
		ClientCertificate: string(client), ServingCertificate: string(serving), CACertificate: string(h.config.Clients.PEM()),
	}, nil
}

// may lets a machine renew its own name, and a token holder take a name whose
// machine is not live.
func (h *Handler) may(ctx context.Context, who user.Info, ask *joinRequest) error {
	if node, ok := authz.NodeOf(who); ok {
		if node == ask.name {
			return nil
		}
		return apierrors.NewForbidden(nodes, ask.name, fmt.Errorf("node %s may renew its own certificates only", node))
	}
	if !hasGroup(who, authn.BootstrapGroup) && !hasGroup(who, user.SystemPrivilegedGroup) {
		return apierrors.NewForbidden(nodes, ask.name, fmt.Errorf("user %q may not join machines: use a bootstrap token", who.GetName()))
	}
	return h.free(ctx, ask)
}

func hasGroup(who user.Info, group string) bool {
	for _, g := range who.GetGroups() {
		if g == group {
			return true
		}
	}
	return false
}

func refuse(w http.ResponseWriter, err error) {
	status := apierrors.NewInternalError(err).Status()
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // whoever asked has gone
}
