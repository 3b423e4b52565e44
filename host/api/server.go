package api

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// server is the handler behind every path.
//
// It is large because each group of paths has its handlers in a file of its
// own.
type server struct {
	Config
	echo *echo.Echo
	docs *docs
}

// New makes the handler of the whole API. It is served over HTTP/2, except for
// upgrades; the server's WriteTimeout must be 0, since watches have no end.
func New(c Config) (http.Handler, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Version == (version.Info{}) {
		c.Version = DefaultVersion
		c.Version.GoVersion, c.Version.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	}
	s := &server{Config: c, echo: echo.New(), docs: newDocs()}
	s.echo.HideBanner = true
	s.echo.HTTPErrorHandler = s.unrouted
	if err := s.route(); err != nil {
		return nil, err
	}
	return s.echo, nil
}

// served says whether a path is of a group and version that is served, or of none.
func served(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "apis" && len(parts) > 2:
		return slices.Contains(versions(), schema.GroupVersion{Group: parts[1], Version: parts[2]})
	case parts[0] == "api" && len(parts) > 1:
		return parts[1] == "v1"
	}
	return true
}

// unrouted answers what no route answers.
func (s *server) unrouted(err error, c echo.Context) {
	if gv, ok := s.elsewhere(c.Request()); ok {
		s.forward(c, gv)
		return
	}
	call := s.begin(c, nil)
	defer call.end()
	if he := (*echo.HTTPError)(nil); errors.As(err, &he) && he.Code == http.StatusMethodNotAllowed && served(c.Request().URL.Path) {
		call.fail(methodNotAllowed(c.Request()))
		return
	}
	if refused := call.pass(); refused != nil {
		call.fail(refused)
		return
	}
	call.fail(pathNotFound())
}
