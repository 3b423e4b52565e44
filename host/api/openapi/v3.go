package openapi

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

var mediaTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}

// V3 is the document of one group and version.
func V3(gv schema.GroupVersion, version string) *spec3.OpenAPI {
	doc := &spec3.OpenAPI{
		Version:    "3.0.0",
		Info:       info(version),
		Paths:      &spec3.Paths{Paths: map[string]*spec3.Path{}},
		Components: &spec3.Components{Schemas: schemas3(gv)},
	}
	for _, op := range operations(gv) {
		path := doc.Paths.Paths[op.path]
		if path == nil {
			path = &spec3.Path{}
			path.Parameters = pathParameters(op.path)
			doc.Paths.Paths[op.path] = path
		}
		*methodOf(path, op.method) = op.v3()
	}
	return doc
}

func info(version string) *spec.Info {
	return &spec.Info{InfoProps: spec.InfoProps{Title: "Berth", Version: version}}
}

func methodOf(p *spec3.Path, method string) **spec3.Operation {
	switch method {
	case http.MethodGet:
		return &p.Get
	case http.MethodPost:
		return &p.Post
	case http.MethodPut:
		return &p.Put
	case http.MethodPatch:
		return &p.Patch
	}
	return &p.Delete
}

func pathParameters(path string) []*spec3.Parameter {
	var params []*spec3.Parameter
	for _, name := range paramsIn(path) {
		params = append(params, parameter(name, "path", "string", pathText[name], true))
	}
	return append(params, queryParameter("pretty"))
}

func queryParameter(name string) *spec3.Parameter {
	return parameter(name, "query", describe[name].kind, describe[name].text, false)
}

func parameter(name, in, kind, text string, required bool) *spec3.Parameter {
	unique := kind == "string"
	p := &spec3.Parameter{ParameterProps: spec3.ParameterProps{
		Name: name, In: in, Description: text, Required: required,
		Schema: &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{kind}, UniqueItems: unique}},
	}}
	return p
}

func (op *operation) v3() *spec3.Operation {
	o := &spec3.Operation{OperationProps: spec3.OperationProps{
		Tags: []string{tag(op.kind)}, OperationId: op.id, Responses: op.responses3(),
	}}
	o.Extensions = spec.Extensions{"x-kubernetes-action": op.action, gvkExtension: gvkObject(op.kind)}
	for _, name := range op.params {
		o.Parameters = append(o.Parameters, queryParameter(name))
	}
	if op.body != "" {
		types := []string{"*/*"}
		if op.patches != nil {
			types = op.patches
		}
		o.RequestBody = &spec3.RequestBody{RequestBodyProps: spec3.RequestBodyProps{Content: content(types, op.body), Required: op.method != http.MethodDelete}}
	}
	return o
}

func (op *operation) responses3() *spec3.Responses {
	ok := &spec3.Response{ResponseProps: spec3.ResponseProps{Description: "OK"}}
	if op.answer != "" {
		ok.Content = content(mediaTypes, op.answer)
	}
	responses := map[int]*spec3.Response{http.StatusOK: ok}
	if op.method == http.MethodPost || op.method == http.MethodPut || op.method == http.MethodPatch {
		created := *ok
		created.Description = "Created"
		responses[http.StatusCreated] = &created
	}
	responses[http.StatusUnauthorized] = &spec3.Response{ResponseProps: spec3.ResponseProps{Description: "Unauthorized"}}
	return &spec3.Responses{ResponsesProps: spec3.ResponsesProps{StatusCodeResponses: responses}}
}

func content(types []string, model string) map[string]*spec3.MediaType {
	out := map[string]*spec3.MediaType{}
	for _, t := range types {
		out[t] = &spec3.MediaType{MediaTypeProps: spec3.MediaTypeProps{
			Schema: &spec.Schema{SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef(prefix3 + model)}},
		}}
	}
	return out
}

// tag groups operations as Kubernetes does: core_v1, apps_v1.
func tag(gvk schema.GroupVersionKind) string {
	group := gvk.Group
	if group == "" {
		group = "core"
	}
	return group + "_" + gvk.Version
}
