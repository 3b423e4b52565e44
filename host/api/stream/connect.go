package stream

import (
	"net/http"

	"github.com/berth-dev/berth/host/api"
)

// Connectors are the streams and proxies as the API mounts them.
func (s *Streams) Connectors() map[string]api.Connector {
	all := map[string]api.Connector{}
	for _, name := range []string{"pods/log", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"} {
		all[name] = s.connect
	}
	return all
}

func (s *Streams) connect(w http.ResponseWriter, r *http.Request, c *api.Connection) error {
	clean(r.Header)
	return s.serve(w, r, Target{
		Resource: c.Kind.Resource, Namespace: c.Namespace, Name: c.Name, Subresource: c.Subresource, Path: c.Path, User: c.User,
	})
}
