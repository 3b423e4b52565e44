package wire

import (
	"encoding/binary"
	"io"

	"github.com/berth-dev/berth/host/store"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Stream writes the events of one watch.
type Stream struct {
	Typed
	// columns were sent already, in a stream of tables
	headed bool
}

// Change is an event to be written.
type Change struct {
	Type   watch.EventType
	Object store.Object
	Shared func(format string, encode func(store.Object) ([]byte, error)) ([]byte, error)
}

// Write sends one event.
func (s *Stream) Write(w io.Writer, c *Change) error {
	object, err := s.object(c)
	if err != nil {
		return err
	}
	return s.frame(w, c.Type, object)
}

func (s *Stream) object(c *Change) ([]byte, error) {
	switch {
	case s.Format.As == Table && c.Type == watch.Bookmark:
		return s.tableOf(nil, listMeta{ResourceVersion: c.Object.GetResourceVersion()}, false)
	case s.Format.As == Table:
		first := !s.headed
		s.headed = true
		return s.tableOf([]store.Object{c.Object}, listMeta{ResourceVersion: c.Object.GetResourceVersion()}, first)
	case s.Format.As == Metadata:
		return s.Object(c.Object)
	}
	body, err := c.Shared(s.share(), s.body)
	if err != nil {
		return nil, err
	}
	if s.Format.Media == Protobuf {
		return Envelope(s.gvk(), body), nil
	}
	return withType(s.gvk(), body), nil
}

// Fail ends a stream with what went wrong.
func (s *Stream) Fail(w io.Writer, status *metav1.Status) error {
	status.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Status"})
	f := s.Format
	f.Pretty = false
	object, err := Any(f, status)
	if err != nil {
		return err
	}
	return s.frame(w, watch.Error, object)
}

// frame is a line of JSON, or a length and a protobuf WatchEvent.
func (s *Stream) frame(w io.Writer, t watch.EventType, object []byte) error {
	if s.Format.Media != Protobuf {
		head := `{"type":"` + string(t) + `","object":`
		line := make([]byte, 0, len(head)+len(object)+2)
		line = append(line, head...)
		line = append(line, trimNewline(object)...)
		return writeOne(w, append(line, "}\n"...), nil)
	}
	raw := appendField(nil, 1, string(object))
	event := make([]byte, 4, 4+len(raw)+len(t)+16)
	event = appendField(event, 1, string(t))
	event = appendField(event, 2, string(raw))
	binary.BigEndian.PutUint32(event, uint32(len(event)-4))
	return writeOne(w, event, nil)
}

func trimNewline(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		return b[:n-1]
	}
	return b
}
