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
	// head is room for what comes before a message's object.
	head []byte
}

// Change is an event to be written.
type Change struct {
	Type   watch.EventType
	Object store.Object
	Shared func(format string, encode func(store.Object) ([]byte, error)) ([]byte, error)
}

// Write sends one event.
func (s *Stream) Write(w io.Writer, c *Change) error {
	if s.Format.Media == Protobuf && s.Format.As == Whole {
		return s.message(w, c)
	}
	object, err := s.object(c)
	if err != nil {
		return err
	}
	return s.frame(w, c.Type, object)
}

// message writes an event in protobuf around the bytes that all watchers share:
//
//	size | WatchEvent{1: type, 2: RawExtension{1: Unknown{type, object}}}
func (s *Stream) message(w io.Writer, c *Change) error {
	body, err := c.Shared(s.share(), s.body)
	if err != nil {
		return err
	}
	envelope := envelopeHead(s.gvk(), len(body))
	size := len(envelope) + len(body) + len(envelopeTail)
	raw := 1 + varintSize(size) + size
	s.head = append(s.head[:0], 0, 0, 0, 0)
	s.head = appendField(s.head, 1, string(c.Type))
	s.head = appendFieldHead(s.head, 2, raw)
	s.head = appendFieldHead(s.head, 1, size)
	s.head = append(s.head, envelope...)
	binary.BigEndian.PutUint32(s.head, uint32(len(s.head)-4+len(body)+len(envelopeTail)))
	for _, part := range [...][]byte{s.head, body, envelopeEnd} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
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
