package openapi

import (
	"net/http"
	"strings"

	"github.com/berth-dev/berth/host/api/kind"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// operation is one method of one path, before it is written in either version.
type operation struct {
	path   string
	method string
	// action is Kubernetes' name for what it does: list, post, connect.
	action string
	kind   schema.GroupVersionKind
	id     string
	// body and answer name models; empty means none.
	body, answer string
	// patches are the media types of a patch.
	patches []string
	// params of the query, beyond those in the path.
	params []string
}

var (
	listParams   = []string{"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch"}
	writeParams  = []string{"dryRun", "fieldManager", "fieldValidation"}
	deleteParams = []string{"dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"}
)

// describe explains a parameter of the query.
var describe = map[string]struct{ kind, text string }{
	"allowWatchBookmarks":  {"boolean", "Asks a watch for bookmarks, which tell how far it has come."},
	"continue":             {"string", "Where a list in pages goes on: the token that the page before ended with."},
	"fieldSelector":        {"string", "Restricts the objects by their fields."},
	"labelSelector":        {"string", "Restricts the objects by their labels."},
	"limit":                {"integer", "The largest number of objects in a page."},
	"resourceVersion":      {"string", "How new the answer must be, or where a watch begins."},
	"resourceVersionMatch": {"string", "How resourceVersion is meant."},
	"sendInitialEvents":    {"boolean", "Asks a watch to begin with all that is there."},
	"timeoutSeconds":       {"integer", "How long the call may take."},
	"watch":                {"boolean", "Follow changes instead of listing."},
	"dryRun":               {"string", "All runs everything but the write itself."},
	"fieldManager":         {"string", "The name under which the fields that are set are owned."},
	"fieldValidation":      {"string", "What to do about unknown and duplicate fields: Ignore, Warn or Strict."},
	"force":                {"boolean", "Takes fields from their owners, with apply."},
	"gracePeriodSeconds":   {"integer", "How long the object may take to end."},
	"orphanDependents":     {"boolean", "Deprecated: use propagationPolicy."},
	"propagationPolicy":    {"string", "What becomes of dependents: Orphan, Background or Foreground."},
	"pretty":               {"string", "If 'true', then the output is pretty printed."},
}

// root is the path of a version.
func root(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// operations lists what a version can do.
func operations(gv schema.GroupVersion) []operation {
	var ops []operation
	for _, k := range kind.All {
		if k.Serves(gv) {
			ops = append(ops, kindOperations(k, gv)...)
		}
	}
	return ops
}

func kindOperations(k *kind.Kind, gv schema.GroupVersion) []operation {
	gvk := gv.WithKind(k.Name)
	model, list := modelName(gvk), modelName(gv.WithKind(k.Name+"List"))
	all := root(gv) + "/" + k.Resource
	these, scope := all, ""
	if k.Namespaced {
		these, scope = root(gv)+"/namespaces/{namespace}/"+k.Resource, "Namespaced"
	}
	one := these + "/{name}"
	var ops []operation
	add := func(verb string, op operation) {
		if !k.Can(verb) {
			return
		}
		op.kind = gvk
		op.id = op.action + camel(gv) + op.id + k.Name
		ops = append(ops, op)
	}
	add("list", operation{path: these, method: http.MethodGet, action: "list", id: scope, answer: list, params: listParams})
	add("create", operation{path: these, method: http.MethodPost, action: "post", id: scope, body: model, answer: model, params: writeParams})
	add("deletecollection", operation{path: these, method: http.MethodDelete, action: "deletecollection", id: "Collection" + scope, body: metaModels["DeleteOptions"], answer: metaModels["Status"], params: append(deleteParams, listParams...)})
	if k.Namespaced {
		add("list", operation{path: all, method: http.MethodGet, action: "list", id: "ForAllNamespaces", answer: list, params: listParams})
	}
	add("get", operation{path: one, method: http.MethodGet, action: "get", id: scope, answer: model})
	add("update", operation{path: one, method: http.MethodPut, action: "put", id: scope, body: model, answer: model, params: writeParams})
	add("patch", operation{path: one, method: http.MethodPatch, action: "patch", id: scope, body: patchModel, answer: model, patches: k.PatchTypes(), params: append(writeParams, "force")})
	add("delete", operation{path: one, method: http.MethodDelete, action: "delete", id: scope, body: metaModels["DeleteOptions"], answer: metaModels["Status"], params: deleteParams})
	for i := range k.Subresources {
		ops = append(ops, subOperations(&k.Subresources[i], gv, gvk, k.PatchTypes(), one, scope)...)
	}
	return ops
}

var methods = map[string]struct{ method, action string }{
	"get": {http.MethodGet, "get"}, "create": {http.MethodPost, "post"}, "update": {http.MethodPut, "put"},
	"patch": {http.MethodPatch, "patch"}, "delete": {http.MethodDelete, "delete"},
}

func subOperations(sub *kind.Subresource, gv schema.GroupVersion, gvk schema.GroupVersionKind, patches []string, one, scope string) []operation {
	body := gvk
	if !sub.Body.Empty() {
		body = sub.Body
	}
	model := modelName(body)
	var ops []operation
	for _, verb := range sub.Verbs {
		m := methods[verb]
		op := operation{path: one + "/" + sub.Name, method: m.method, action: m.action, kind: body, answer: model}
		switch {
		case sub.Connect:
			op.action, op.answer = "connect", ""
			op.id = "connect" + strings.ToUpper(m.action[:1]) + m.action[1:]
		case verb == "patch":
			op.body, op.patches, op.params = patchModel, patches, append(writeParams, "force")
		case verb == "create", verb == "update":
			op.body, op.params = model, writeParams
		}
		if op.id == "" {
			op.id = op.action
		}
		op.id += camel(gv) + scope + gvk.Kind + strings.ToUpper(sub.Name[:1]) + sub.Name[1:]
		ops = append(ops, op)
	}
	return ops
}

// camel is a version as operation ids spell it: CoreV1, AppsV1, PolicyBerthDevV1alpha1.
func camel(gv schema.GroupVersion) string {
	group := gv.Group
	if group == "" {
		group = "core"
	}
	group = strings.TrimSuffix(group, ".k8s.io")
	var b strings.Builder
	for _, part := range append(strings.FieldsFunc(group, func(r rune) bool { return r == '.' }), gv.Version) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// paramsIn are the parameters that a path itself holds.
func paramsIn(path string) []string {
	var names []string
	for _, part := range strings.Split(path, "/") {
		if strings.HasPrefix(part, "{") {
			names = append(names, strings.Trim(part, "{}"))
		}
	}
	return names
}

// pathText explains a parameter of a path.
var pathText = map[string]string{
	"name":      "The object's name.",
	"namespace": "The namespace that the object is in.",
}
