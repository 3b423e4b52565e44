package abi

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Observe is something that the host looks at for a gate, since a guest can
// reach nothing.
type Observe struct {
	Name string `json:"name"`
	// Kind is http, tcp, pods, objects or node.
	Kind string `json:"kind"`
	// Port is for http and tcp, to the pod's own address.
	Port Port `json:"port,omitempty"`
	// Scheme (HTTP, the default, or HTTPS, whose certificate is not checked),
	// Path, which may carry a query, and Headers are for http, and mean what
	// they mean in a probe.
	Scheme  string       `json:"scheme,omitempty"`
	Path    string       `json:"path,omitempty"`
	Headers []HTTPHeader `json:"httpHeaders,omitempty"`
	// Host is a probe's other address, which no observation has.
	Host string `json:"host,omitempty"`
	// Selector and Namespace are for pods: how many match, and are ready; and
	// for objects of Resource, such as services: how many match. The pod's own
	// namespace is the default.
	Resource  string `json:"resource,omitempty"`
	Selector  string `json:"selector,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Condition is for node: a condition of the pod's node.
	Condition string `json:"condition,omitempty"`
	// TimeoutSeconds bounds an attempt; 1 by default, 10 at most.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// HTTPHeader is a header that the host sends. One of the name Host says which
// site of a server is meant; the address stays the pod's.
type HTTPHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Kinds of observations.
const (
	ObserveHTTP    = "http"
	ObserveTCP     = "tcp"
	ObservePods    = "pods"
	ObserveObjects = "objects"
	ObserveNode    = "node"
)

// Schemes of an observation by HTTP.
const (
	SchemeHTTP  = "HTTP"
	SchemeHTTPS = "HTTPS"
)

// CheckObserves checks what a gate's manifest or settings want observed.
func CheckObserves(list []Observe) error {
	if len(list) > MaxObserves {
		return fmt.Errorf("observe: %d things, at most %d", len(list), MaxObserves)
	}
	for i := range list {
		o := &list[i]
		if !validName(o.Name) {
			return fmt.Errorf("observe: the name must be 1 to %d letters, digits, '-', '.' or '_'", MaxName)
		}
		for j := range i {
			if list[j].Name == o.Name {
				return fmt.Errorf("observe: two have the name %s", o.Name)
			}
		}
		if err := o.check(); err != nil {
			return fmt.Errorf("observe %s: %w", o.Name, err)
		}
	}
	return nil
}

// check says what is wrong with an observation before it is ever made.
func (o *Observe) check() error {
	if o.Host != "" {
		return fmt.Errorf("host: only the pod's own address is looked at; which site is meant says a Host among httpHeaders")
	}
	if member := o.stray(); member != "" {
		return fmt.Errorf("%s is not for the kind %.64s", member, o.Kind)
	}
	if o.TimeoutSeconds < 0 || o.TimeoutSeconds > MaxTimeoutSeconds {
		return fmt.Errorf("timeoutSeconds is %d: it must be 1 to %d", o.TimeoutSeconds, MaxTimeoutSeconds)
	}
	switch o.Kind {
	case ObserveHTTP:
		return o.checkHTTP()
	case ObserveTCP:
		return o.Port.check()
	case ObserveObjects:
		if o.Resource == "" {
			return fmt.Errorf("it names no resource, such as services")
		}
	case ObserveNode:
		if o.Condition == "" {
			return fmt.Errorf("it names no condition, such as Ready")
		}
	case ObservePods:
	default:
		return fmt.Errorf("unknown kind %.64q: use http, tcp, pods, objects or node", o.Kind)
	}
	return nil
}

// stray names a member that says nothing for its kind, where it would be passed
// over; of an unknown kind nothing is known.
func (o *Observe) stray() string {
	var http, network, objects, resource, node bool
	switch o.Kind {
	case ObserveHTTP:
		http, network = true, true
	case ObserveTCP:
		network = true
	case ObservePods:
		objects = true
	case ObserveObjects:
		objects, resource = true, true
	case ObserveNode:
		node = true
	default:
		return ""
	}
	for _, m := range []struct {
		name        string
		given, fits bool
	}{
		{"scheme", o.Scheme != "", http},
		{"path", o.Path != "", http},
		{"httpHeaders", len(o.Headers) > 0, http},
		{"port", o.Port != "", network},
		{"timeoutSeconds", o.TimeoutSeconds != 0, network},
		{"selector", o.Selector != "", objects},
		{"namespace", o.Namespace != "", objects},
		{"resource", o.Resource != "", resource},
		{"condition", o.Condition != "", node},
	} {
		if m.given && !m.fits {
			return m.name
		}
	}
	return ""
}

func (o *Observe) checkHTTP() error {
	if err := o.Port.check(); err != nil {
		return err
	}
	if o.Scheme != "" && o.Scheme != SchemeHTTP && o.Scheme != SchemeHTTPS {
		return fmt.Errorf("the scheme is %.64q: use HTTP or HTTPS", o.Scheme)
	}
	if err := checkPath(o.Path); err != nil {
		return err
	}
	return checkHeaders(o.Headers)
}

// checkPath refuses what no request line can carry.
func checkPath(path string) error {
	if len(path) > MaxPath {
		return fmt.Errorf("the path has %d bytes, at most %d", len(path), MaxPath)
	}
	if i := strings.IndexFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 {
		return fmt.Errorf("the path has a space or a control character at %d: write it as %%%02X", i, path[i])
	}
	plain, _, _ := strings.Cut(path, "#")
	plain, _, _ = strings.Cut(plain, "?")
	for i := range len(plain) {
		if plain[i] == '%' && (i+2 >= len(plain) || !hexDigit(plain[i+1]) || !hexDigit(plain[i+2])) {
			return fmt.Errorf("the path has a %% at %d without two hexadecimal digits: write it as %%25", i)
		}
	}
	return nil
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func checkHeaders(list []HTTPHeader) error {
	if len(list) > MaxHeaders {
		return fmt.Errorf("%d httpHeaders, at most %d", len(list), MaxHeaders)
	}
	total := 0
	for i := range list {
		h := &list[i]
		if total += len(h.Name) + len(h.Value); total > MaxHeaderBytes {
			return fmt.Errorf("httpHeaders have more than %d bytes", MaxHeaderBytes)
		}
		if !headerName(h.Name) {
			return fmt.Errorf("httpHeaders: %.64q is no name of a header: letters, digits and '-'", h.Name)
		}
		if strings.IndexFunc(h.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) >= 0 {
			return fmt.Errorf("httpHeaders: the value of %s has a control character", h.Name)
		}
		if strings.EqualFold(h.Name, "Host") && !hostName(h.Value) {
			return fmt.Errorf("httpHeaders: the Host %.64q is no name or address, with or without a port", h.Value)
		}
	}
	return nil
}

// hostName says whether a request may carry it as its Host.
func hostName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~:[]", r)
		return !ok
	}) < 0
}

func headerName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return s != ""
}

// Port is a port of a pod: a number in decimal, or a name that one of its
// containers gives to a port. In JSON a number may stand as a number.
type Port string

// Number is the port's number; ok is false if it has a name instead.
func (p Port) Number() (n int, ok bool) {
	n, err := strconv.Atoi(string(p))
	return n, err == nil
}

// UnmarshalJSON reads a number or a string.
func (p *Port) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(p))
	}
	var n *int32
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("the port is neither a number nor a string: %w", err)
	}
	if n != nil {
		*p = Port(strconv.Itoa(int(*n)))
	}
	return nil
}

// MarshalJSON writes a number as a number.
func (p Port) MarshalJSON() ([]byte, error) {
	if n, ok := p.Number(); ok {
		return strconv.AppendInt(nil, int64(n), 10), nil
	}
	return json.Marshal(string(p))
}

func (p Port) check() error {
	n, ok := p.Number()
	if ok && n >= 1 && n <= 65535 || !ok && p.isName() {
		return nil
	}
	return fmt.Errorf("the port is %.64q: it must be 1 to 65535, or a port's name in the pod: 1 to 15 of a-z, 0-9 and '-', with a letter, and no '-' at an end or beside another", string(p))
}

// isName follows IANA's rule for names of services, which Kubernetes has for
// those of ports.
func (p Port) isName() bool {
	letter := false
	for i := range len(p) {
		c := p[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
		letter = letter || c >= 'a'
	}
	s := string(p)
	return letter && len(s) <= 15 && s[0] != '-' && s[len(s)-1] != '-' && !strings.Contains(s, "--")
}
