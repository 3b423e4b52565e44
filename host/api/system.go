package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// routeSystem lays the paths that are about the server itself.
func (s *server) routeSystem() {
	s.get("/version", func(k *call) error {
		data, err := json.MarshalIndent(s.Version, "", "  ")
		if err != nil {
			return err
		}
		k.header("application/json")
		return k.write(http.StatusOK, data)
	})
	for _, path := range []string{"/healthz", "/livez"} {
		s.get(path, func(k *call) error { return k.health("ping", nil) })
	}
	s.get("/readyz", func(k *call) error { return k.health("ready", s.Ready) })
	// kubectl looks for these when a manifest names an unknown kind of a known
	// group, to tell a misspelt one from one whose definition is still to come.
	s.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", func(k *call) error {
		if _, watch := k.query["watch"]; watch {
			return pathNotFound() // nobody may define one, so none will ever come
		}
		k.header("application/json")
		return k.write(http.StatusOK, []byte(`{"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`+"\n"))
	})
	s.get("/", func(k *call) error {
		data, err := json.MarshalIndent(map[string][]string{"paths": s.paths()}, "", "  ")
		if err != nil {
			return err
		}
		k.header("application/json")
		return k.write(http.StatusOK, data)
	})
}

// get lays a path that is no resource. Some clients end it with a slash.
func (s *server) get(path string, answer func(*call) error) {
	handler := s.serve(target{verb: "get"}, answer)
	s.echo.GET(path, handler)
	if path != "/" && !strings.HasSuffix(path, "*") {
		s.echo.GET(path+"/", handler)
	}
}

func (s *server) routeRaw(method, path string, route Route) {
	at := target{verb: "", stream: true}
	s.echo.Add(method, path, func(c echo.Context) error {
		k := s.begin(c, &at)
		defer k.end()
		if !route.Public {
			if err := k.pass(); err != nil {
				k.fail(err)
				return nil
			}
		}
		defer k.boundBody()()
		defer k.boundAnswer()()
		route.Handler.ServeHTTP(k.w, k.r)
		return nil
	})
}

func (k *call) health(name string, check func() error) error {
	k.header("text/plain; charset=utf-8")
	k.w.Header().Set("X-Content-Type-Options", "nosniff")
	others := slices.DeleteFunc(slices.Clone(k.query["exclude"]), func(s string) bool { return s == name })
	state := "ok"
	switch {
	case len(others) < len(k.query["exclude"]):
		state = "excluded: ok"
	case check != nil:
		if err := check(); err != nil {
			return k.write(http.StatusInternalServerError, fmt.Appendf(nil, "[-]%s failed: %v\n%s check failed\n", name, err, name))
		}
	}
	if _, verbose := k.query["verbose"]; verbose {
		text := fmt.Appendf(nil, "[+]%s %s\n", name, state)
		if len(others) > 0 {
			text = fmt.Appendf(text, "warn: no check to exclude is called %q\n", others)
		}
		return k.write(http.StatusOK, fmt.Appendf(text, "%s check passed\n", k.r.URL.Path[1:]))
	}
	return k.write(http.StatusOK, []byte("ok"))
}

// paths are the roots that clients may look at.
func (s *server) paths() []string {
	paths := []string{"/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"}
	for _, gv := range versions() {
		paths = append(paths, root(gv))
	}
	slices.Sort(paths)
	return paths
}
