package openapi

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// V2 is the one document that older clients read.
func V2(gvs []schema.GroupVersion, version string) *spec.Swagger {
	doc := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0", Info: info(version),
		Paths:       &spec.Paths{Paths: map[string]spec.PathItem{}},
		Definitions: definitions2(gvs),
	}}
	for _, gv := range gvs {
		for _, op := range operations(gv) {
			path, ok := doc.Paths.Paths[op.path]
			if !ok {
				for _, name := range paramsIn(op.path) {
					p := parameter2(name, "path", "string", pathText[name])
					p.Required = true
					path.Parameters = append(path.Parameters, p)
				}
			}
			*methodOf2(&path, op.method) = op.v2()
			doc.Paths.Paths[op.path] = path
		}
	}
	return doc
}

func methodOf2(p *spec.PathItem, method string) **spec.Operation {
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

func (op *operation) v2() *spec.Operation {
	o := &spec.Operation{OperationProps: spec.OperationProps{
		ID: op.id, Tags: []string{tag(op.kind)}, Consumes: []string{"*/*"}, Produces: mediaTypes, Schemes: []string{"https"},
		Responses: &spec.Responses{ResponsesProps: spec.ResponsesProps{StatusCodeResponses: map[int]spec.Response{}}},
	}}
	if op.patches != nil {
		o.Consumes = op.patches
	}
	o.Extensions = spec.Extensions{"x-kubernetes-action": op.action, gvkExtension: gvkObject(op.kind)}
	if op.body != "" {
		body := spec.Parameter{ParamProps: spec.ParamProps{Name: "body", In: "body", Schema: refTo(op.body), Required: op.method != http.MethodDelete}}
		o.Parameters = append(o.Parameters, body)
	}
	for _, name := range op.params {
		o.Parameters = append(o.Parameters, parameter2(name, "query", describe[name].kind, describe[name].text))
	}
	ok := spec.Response{ResponseProps: spec.ResponseProps{Description: "OK"}}
	if op.answer != "" {
		ok.Schema = refTo(op.answer)
	}
	o.Responses.StatusCodeResponses[http.StatusOK] = ok
	return o
}

func refTo(model string) *spec.Schema {
	return &spec.Schema{SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef(prefix2 + model)}}
}

func parameter2(name, in, kind, text string) spec.Parameter {
	return spec.Parameter{
		SimpleSchema:      spec.SimpleSchema{Type: kind},
		CommonValidations: spec.CommonValidations{UniqueItems: true},
		ParamProps:        spec.ParamProps{Name: name, In: in, Description: text},
	}
}
