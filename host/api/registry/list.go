package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ListOptions narrow a list.
type ListOptions struct {
	Selector
	Limit int64
	// Continue is the token that the page before ended with.
	Continue string
	// ResourceVersion and Match say how new the list must be, as Kubernetes
	// defines them; a list here is never older than the newest revision,
	// unless Match is Exact.
	ResourceVersion string
	Match           metav1.ResourceVersionMatch
}

// List is a page.
type List struct {
	store.List
	// found by an index, so without the store's shared encodings
	derived bool
	// Continue is empty on the last page.
	Continue string
	// RemainingItems is nil when it isn't known.
	RemainingItems *int64
}

// List shows the kind's objects in the request's namespace, or in all, by
// namespace and name.
func (reg *Registry) List(_ context.Context, r *Request, opts ListOptions) (*List, error) {
	if r.Kind.Strategy == nil {
		return nil, methodNotSupported(r, "list")
	}
	rev, after, err := reg.where(&opts)
	if err != nil {
		return nil, err
	}
	if opts.Limit == 0 && opts.Continue == "" && rev == 0 {
		if found, ok := reg.indexed(r, &opts); ok {
			return found, nil
		}
	}
	found, err := reg.store.List(r.Kind.StoreName(), r.Namespace, store.ListOptions{
		Revision: rev, After: after, Limit: int(opts.Limit), Match: opts.match(r.Kind),
	})
	if err != nil {
		return nil, listError(r, err, after, rev, reg.store.Revision())
	}
	list := &List{List: found}
	if !found.More {
		return list, nil
	}
	list.Continue = token{Revision: found.Revision, After: found.After, Until: time.Now().Add(tokenLife).Unix()}.String()
	if opts.Empty() {
		list.RemainingItems = &found.Remaining
	}
	return list, nil
}

// where works out the revision to list at and the place to go on from.
func (reg *Registry) where(opts *ListOptions) (rev int64, after string, err error) {
	if opts.Limit < 0 {
		return 0, "", apierrors.NewBadRequest("limit must not be negative")
	}
	if opts.Continue != "" {
		if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
			return 0, "", apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		t, err := parseToken(opts.Continue)
		if err != nil {
			return 0, "", apierrors.NewBadRequest(fmt.Sprintf("continue key is not valid: %v", err))
		}
		if t.Until != 0 && time.Now().Unix() > t.Until {
			return 0, "", tokenExpired(t.After)
		}
		return t.Revision, t.After, nil
	}
	asked, err := reg.Reached(opts.ResourceVersion)
	if err != nil {
		return 0, "", err
	}
	if opts.Match == metav1.ResourceVersionMatchExact || (opts.Match == "" && asked > 0 && opts.Limit > 0) {
		return asked, "", nil
	}
	return 0, "", nil
}

// Reached reads a resourceVersion parameter, and refuses one that is yet to come:
// what is there is older than its client wants.
func (reg *Registry) Reached(rv string) (int64, error) {
	asked, err := ParseVersion(rv)
	if have := reg.store.Revision(); err == nil && asked > have {
		return 0, tooLargeVersion(asked, have)
	}
	return asked, err
}

// ParseVersion reads a resourceVersion parameter; "" and "0" are 0.
func ParseVersion(rv string) (int64, error) {
	if rv == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(rv, 10, 63)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("Invalid value: %q: resourceVersion must be an unsigned integer", rv))
	}
	return int64(n), nil
}

// nodeOf is the one node whose pods are asked for.
func (reg *Registry) nodeOf(r *Request, s *Selector) (string, bool) {
	if !reg.byNode || r.Kind != podKind || s.Fields == nil {
		return "", false
	}
	node, ok := s.Fields.RequiresExactMatch(IndexNode)
	return node, ok && node != ""
}

// indexed answers a list by an index of the store, which is where agents that
// ask for their own pods would otherwise read all.
func (reg *Registry) indexed(r *Request, opts *ListOptions) (*List, bool) {
	node, ok := reg.nodeOf(r, &opts.Selector)
	if !ok {
		return nil, false
	}
	rev := reg.store.Revision()
	match := opts.match(r.Kind)
	list := &List{List: store.List{Revision: rev}, derived: true}
	for _, obj := range reg.store.Indexed(r.Kind.StoreName(), IndexNode, node) {
		if (r.Namespace == "" || obj.GetNamespace() == r.Namespace) && match(obj) {
			list.Items = append(list.Items, obj)
		}
	}
	return list, true
}

// Shared is store.List.Shared where there is something to share.
func (l *List) Shared(i int, format string, encode func(store.Object) ([]byte, error)) ([]byte, error) {
	if l.derived {
		return encode(l.Items[i])
	}
	return l.List.Shared(i, format, encode)
}

// Shared is the encoding of an object that the registry gave, made once for all
// who are shown it.
func (reg *Registry) Shared(k *kind.Kind, obj store.Object, format string, encode func(store.Object) ([]byte, error)) ([]byte, error) {
	return reg.store.Shared(k.Key(obj.GetNamespace(), obj.GetName()), obj, format, encode)
}

// tokenExpired refuses a token whose list's state is no more, with one by which
// the rest can be had as it is now.
func tokenExpired(after string) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"Start a new list without it, or go on with the one in this response: the rest is shown as it is now, with what changed since the first page")
	err.ErrStatus.ListMeta.Continue = token{After: after}.String()
	return err
}

// listError is the error of a list, which went on after a key unless that is empty.
func listError(r *Request, err error, after string, asked, have int64) error {
	continued := after != ""
	switch {
	case errors.Is(err, store.ErrCompacted) && continued:
		return tokenExpired(after)
	case errors.Is(err, store.ErrCompacted):
		return apierrors.NewResourceExpired(fmt.Sprintf("The resourceVersion for the provided list is too old: %d", asked))
	case errors.Is(err, store.ErrFuture) && continued:
		return apierrors.NewBadRequest("continue key is not valid: it is of another store, or forged")
	case errors.Is(err, store.ErrFuture):
		return tooLargeVersion(asked, have)
	}
	return r.status(err)
}

// tokenLife is how long a list can be gone on with as it was: as long as with
// Kubernetes, whose store forgets after five minutes, so that nobody comes to
// rely on more.
const tokenLife = 5 * time.Minute

// token is where a list goes on. It is opaque to clients.
type token struct {
	// Revision that is shown; 0 is the newest.
	Revision int64  `json:"rv,omitempty"`
	After    string `json:"after"`
	// Until when it holds, in Unix seconds; 0 is for ever.
	Until int64 `json:"until,omitempty"`
}

func (t token) String() string {
	data, _ := json.Marshal(t) // two plain fields
	return base64.RawURLEncoding.EncodeToString(data)
}

// longestToken is beyond what names and namespaces can make up.
const longestToken = 2048

func parseToken(s string) (token, error) {
	if len(s) > longestToken {
		return token{}, errors.New("too long")
	}
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return token{}, errors.New("not base64")
	}
	var t token
	if err := json.Unmarshal(data, &t); err != nil {
		return token{}, errors.New("not a token of this server")
	}
	if t.Revision < 0 || t.After == "" {
		return token{}, errors.New("incomplete")
	}
	return t, nil
}
