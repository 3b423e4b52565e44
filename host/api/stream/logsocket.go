package stream

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/net/websocket"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// logSocket sends a log through a WebSocket in Kubernetes' protocols: each piece
// is a message, of bytes or of text in base64. Kubernetes' own wsstream.Reader
// waits for ever where the client's protocol is unknown, or where the client of
// a silent log leaves.
func logSocket(w http.ResponseWriter, r *http.Request, log io.ReadCloser) {
	known, binary := wsstream.NewDefaultReaderProtocols(), true
	websocket.Server{
		Handshake: func(config *websocket.Config, _ *http.Request) error {
			if len(config.Protocol) == 0 {
				return nil
			}
			for _, name := range config.Protocol {
				if protocol, ok := known[name]; ok {
					config.Protocol, binary = []string{name}, protocol.Binary
					return nil
				}
			}
			return fmt.Errorf("none of the protocols %v is known", config.Protocol)
		},
		Handler: func(ws *websocket.Conn) {
			go func() {
				wsstream.IgnoreReceives(ws, 0)
				_ = log.Close() // the client has left: nobody waits for more
			}()
			_, _ = io.Copy(messages{ws, binary}, log)
		},
	}.ServeHTTP(w, r)
}

// messages sends each write as one message.
type messages struct {
	ws     *websocket.Conn
	binary bool
}

func (m messages) Write(p []byte) (int, error) {
	var err error
	if m.binary {
		err = websocket.Message.Send(m.ws, p)
	} else {
		err = websocket.Message.Send(m.ws, base64.StdEncoding.EncodeToString(p))
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
