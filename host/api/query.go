package api

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/host/api/registry"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// query holds a request's parameters.
type query url.Values

func parseQuery(raw string) query {
	if raw == "" {
		return nil
	}
	values, _ := url.ParseQuery(raw) // what cannot be parsed is left out
	return query(values)
}

func (q query) get(name string) string { return url.Values(q).Get(name) }

// flag reads a boolean as Kubernetes' conversion does: there without a value
// is true.
func (q query) flag(name string) bool {
	values, ok := q[name]
	if !ok || len(values) == 0 {
		return false
	}
	return values[0] != "0" && !strings.EqualFold(values[0], "false")
}

func (q query) number(name string) (*int64, error) {
	text := q.get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("parameter %s: %q is not a number", name, text))
	}
	return &n, nil
}

// write checks the parameters that all writes share.
func (q query) write(r *registry.Request) error {
	if len(q) == 0 {
		return nil
	}
	var errs field.ErrorList
	errs = append(errs, metav1validation.ValidateFieldManager(r.Manager, field.NewPath("fieldManager"))...)
	errs = append(errs, metav1validation.ValidateFieldValidation(field.NewPath("fieldValidation"), r.FieldValidation)...)
	dryRun := q["dryRun"]
	errs = append(errs, metav1validation.ValidateDryRun(field.NewPath("dryRun"), dryRun)...)
	r.DryRun = len(dryRun) > 0
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "UpdateOptions"}, "", errs)
	}
	return nil
}

// listOptions are the parameters of lists, watches and deletions of lists.
type listOptions struct {
	registry.Selector
	internalversion.ListOptions
}

func (q query) list(r *registry.Request) (*listOptions, error) {
	o := &listOptions{}
	o.Watch = q.flag("watch")
	o.AllowWatchBookmarks = q.flag("allowWatchBookmarks")
	o.ResourceVersion = q.get("resourceVersion")
	o.ResourceVersionMatch = metav1.ResourceVersionMatch(q.get("resourceVersionMatch"))
	o.Continue = q.get("continue")
	if _, given := q["sendInitialEvents"]; given {
		send := q.flag("sendInitialEvents")
		o.SendInitialEvents = &send
	}
	var err error
	if o.TimeoutSeconds, err = q.number("timeoutSeconds"); err != nil {
		return nil, err
	}
	limit, err := q.number("limit")
	if err != nil {
		return nil, err
	}
	if limit != nil {
		o.Limit = *limit
	}
	if errs := listvalidation.ValidateListOptions(&o.ListOptions, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	o.Selector, err = registry.ParseSelector(r, q.get("labelSelector"), q.get("fieldSelector"))
	return o, err
}

func (o *listOptions) asList() registry.ListOptions {
	return registry.ListOptions{
		Selector: o.Selector, Limit: o.Limit, Continue: o.Continue,
		ResourceVersion: o.ResourceVersion, Match: o.ResourceVersionMatch,
	}
}

// deleteOptions come as parameters when there is no body.
func (q query) delete() (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{DryRun: q["dryRun"]}
	var err error
	if o.GracePeriodSeconds, err = q.number("gracePeriodSeconds"); err != nil {
		return nil, err
	}
	if p := q.get("propagationPolicy"); p != "" {
		policy := metav1.DeletionPropagation(p)
		o.PropagationPolicy = &policy
	}
	if _, given := q["orphanDependents"]; given {
		orphan := q.flag("orphanDependents")
		o.OrphanDependents = &orphan //nolint:staticcheck // old clients still send it
	}
	return o, nil
}

// preconditions are of a deletion without a body.
func (q query) preconditions() *metav1.Preconditions {
	p := &metav1.Preconditions{}
	if uid := types.UID(q.get("uid")); uid != "" {
		p.UID = &uid
	}
	if version := q.get("resourceVersion"); version != "" {
		p.ResourceVersion = &version
	}
	return p
}

// patchType reads the content type of a patch.
func patchType(media string) (types.PatchType, bool) {
	switch t := types.PatchType(media); t {
	case types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyPatchType:
		return t, true
	}
	return "", false
}
