package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/berth-dev/berth/host/api/kind"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// root is the path of a group and version.
func root(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// route lays every path.
func (s *server) route() error {
	for _, k := range kind.All {
		for _, gv := range k.Served {
			s.routeKind(k, gv)
		}
	}
	s.routeDiscovery()
	s.routeSystem()
	for pattern, route := range s.Routes {
		method, path, ok := strings.Cut(pattern, " ")
		if !ok || route.Handler == nil {
			return fmt.Errorf(`route %q: write it as "METHOD /path", with a handler`, pattern)
		}
		s.routeRaw(method, path, route)
	}
	return nil
}

func (s *server) routeKind(k *kind.Kind, gv schema.GroupVersion) {
	all := root(gv) + "/" + k.Resource
	these := all
	if k.Namespaced {
		these = root(gv) + "/namespaces/:namespace/" + k.Resource
	}
	add := func(method, path, verb, sub string, answer func(*call) error) {
		stream := false
		if part, ok := k.Sub(sub); ok {
			stream = part.Connect
		}
		s.echo.Add(method, path, s.serve(target{kind: k, version: gv, sub: sub, verb: verb, stream: stream}, answer))
	}
	one := these + "/:name"
	if k.Strategy == nil {
		s.routeVirtual(k, all, these, one, add)
		return
	}
	add(http.MethodGet, these, "list", "", (*call).listOrWatch)
	if these != all {
		add(http.MethodGet, all, "list", "", (*call).listOrWatch)
	}
	add(http.MethodPost, these, "create", "", (*call).create)
	if k.Can("deletecollection") {
		add(http.MethodDelete, these, "deletecollection", "", (*call).deleteCollection)
	}
	add(http.MethodGet, one, "get", "", (*call).get)
	add(http.MethodPut, one, "update", "", (*call).update)
	add(http.MethodPatch, one, "patch", "", (*call).patch)
	add(http.MethodDelete, one, "delete", "", (*call).delete)
	for i := range k.Subresources {
		s.routeSub(&k.Subresources[i], one, add)
	}
}

// adder adds a route of a kind.
type adder func(method, path, verb, sub string, answer func(*call) error)

var verbMethods = map[string]string{
	"create": http.MethodPost, "get": http.MethodGet, "update": http.MethodPut,
	"patch": http.MethodPatch, "delete": http.MethodDelete,
}

func (s *server) routeSub(sub *kind.Subresource, one string, add adder) {
	path := one + "/" + sub.Name
	for _, verb := range sub.Verbs {
		add(verbMethods[verb], path, verb, sub.Name, subHandler(sub, verb))
		if sub.Connect && sub.Name == "proxy" {
			add(verbMethods[verb], path+"/*", verb, sub.Name, (*call).connect)
		}
	}
	if sub.Connect && sub.Name == "proxy" { // what is behind answers these, not the router
		for _, method := range []string{http.MethodHead, http.MethodOptions} {
			add(method, path, "get", sub.Name, (*call).connect)
			add(method, path+"/*", "get", sub.Name, (*call).connect)
		}
	}
}

func subHandler(sub *kind.Subresource, verb string) func(*call) error {
	switch {
	case sub.Connect:
		return (*call).connect
	case sub.Name == "scale" && verb == "get":
		return (*call).getScale
	case sub.Name == "scale" && verb == "update":
		return (*call).updateScale
	case sub.Name == "scale":
		return (*call).patchScale
	case verb == "get":
		return (*call).get
	case verb == "update":
		return (*call).update
	case verb == "patch":
		return (*call).patch
	}
	return (*call).act
}

func (s *server) routeVirtual(k *kind.Kind, all, these, one string, add adder) {
	switch k.Served[0].Group {
	case "metrics.k8s.io":
		add(http.MethodGet, all, "list", "", (*call).listMetrics)
		if these != all {
			add(http.MethodGet, these, "list", "", (*call).listMetrics)
		}
		add(http.MethodGet, one, "get", "", (*call).getMetrics)
	case "":
		add(http.MethodPost, these, "create", "", (*call).bindings)
	default:
		add(http.MethodPost, these, "create", "", (*call).review)
	}
}
