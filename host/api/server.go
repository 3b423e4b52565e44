package api

import (
	"log/slog"
	"net/http"
	"runtime"

	"github.com/labstack/echo/v4"
	"k8s.io/apimachinery/pkg/version"
)

// server is the handler behind every path.
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

// unrouted answers what no route answers.
func (s *server) unrouted(err error, c echo.Context) {
	call := s.begin(c, nil)
	defer call.end()
	if he, ok := err.(*echo.HTTPError); ok && he.Code == http.StatusMethodNotAllowed {
		call.fail(methodNotAllowed(c.Request()))
		return
	}
	if refused := call.pass(); refused != nil {
		call.fail(refused)
		return
	}
	call.fail(pathNotFound())
}
