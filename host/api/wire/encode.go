package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// message is what protobuf types of k8s.io/api can do.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// Typed writes objects of one kind in one version and format.
type Typed struct {
	Kind    *kind.Kind
	Version schema.GroupVersion
	Format  Format
	// Include is the includeObject parameter, for tables.
	Include string
}

// Offered says what the kind can be answered as.
func Offered(k *kind.Kind, stream bool) Offer {
	return Offer{Protobuf: !k.Own(), Shapes: true, Stream: stream}
}

func (t *Typed) gvk() schema.GroupVersionKind { return t.Version.WithKind(t.Kind.Name) }

// body encodes an object without its type: {"metadata":… in JSON, the bare
// message in protobuf. It is what lists hold, and what is shared.
func (t *Typed) body(obj store.Object) ([]byte, error) {
	out, err := t.Kind.In(t.Version, obj)
	if err != nil {
		return nil, err
	}
	if t.Format.Media == Protobuf {
		return marshal(out)
	}
	if !out.GetObjectKind().GroupVersionKind().Empty() {
		out = t.Kind.Shallow(out)
		out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return json.Marshal(out)
}

// share names the encoding of body among others.
func (t *Typed) share() string {
	name := "json"
	if t.Format.Media == Protobuf {
		name = kind.SharedProtobuf
	}
	if t.Version != t.Kind.Stored() {
		name += " " + t.Version.String()
	}
	return name
}

func marshal(obj runtime.Object) ([]byte, error) {
	m, ok := obj.(message)
	if !ok {
		return nil, fmt.Errorf("%T has no protobuf form", obj)
	}
	data := make([]byte, m.Size())
	_, err := m.MarshalToSizedBuffer(data)
	return data, err
}

// Shared gives the encoding of an object that others may have made already.
type Shared func(obj store.Object, format string, encode func(store.Object) ([]byte, error)) ([]byte, error)

// Object writes one object.
func (t *Typed) Object(obj store.Object) ([]byte, error) {
	return t.ObjectShared(obj, func(obj store.Object, _ string, encode func(store.Object) ([]byte, error)) ([]byte, error) {
		return encode(obj)
	})
}

// ObjectShared is Object by the bytes that others may have made already.
func (t *Typed) ObjectShared(obj store.Object, shared Shared) ([]byte, error) {
	switch t.Format.As {
	case Table:
		return t.tableOf([]store.Object{obj}, listMeta{ResourceVersion: obj.GetResourceVersion()}, true)
	case Metadata:
		return Any(t.Format, partial(t.Format.Version, obj))
	}
	body, err := shared(obj, t.share(), t.body)
	if err != nil {
		return nil, err
	}
	return t.named(body)
}

// named puts the type around a body.
func (t *Typed) named(body []byte) ([]byte, error) {
	switch t.Format.Media {
	case Protobuf:
		return Envelope(t.gvk(), body), nil
	case YAML:
		return yaml.JSONToYAML(withType(t.gvk(), body))
	}
	doc := withType(t.gvk(), body)
	if t.Format.Pretty {
		return indent(doc)
	}
	return append(doc, '\n'), nil
}

func indent(doc []byte) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.Indent(&buf, doc, "", "  "); err != nil {
		return nil, err
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}

// withType puts kind and apiVersion first into a JSON object.
func withType(gvk schema.GroupVersionKind, body []byte) []byte {
	head := typeJSON(gvk)
	doc := make([]byte, 0, len(head)+len(body)+2)
	doc = append(doc, head...)
	if len(body) > 2 {
		doc = append(doc, ',')
	}
	return append(doc, body[1:]...)
}

func typeJSON(gvk schema.GroupVersionKind) string {
	return `{"kind":"` + gvk.Kind + `","apiVersion":"` + gvk.GroupVersion().String() + `"`
}

// Envelope is Kubernetes' protobuf form: a prefix, then a message that names
// the type and holds the object's.
func Envelope(gvk schema.GroupVersionKind, body []byte) []byte {
	head := envelopeHead(gvk, len(body))
	out := make([]byte, 0, len(head)+len(body)+len(envelopeTail))
	out = append(out, head...)
	out = append(out, body...)
	return append(out, envelopeTail...)
}

// envelopeTail is the empty content encoding and type.
const envelopeTail = "\x1a\x00\x22\x00"

var envelopeEnd = []byte(envelopeTail)

func envelopeHead(gvk schema.GroupVersionKind, size int) []byte {
	version := gvk.GroupVersion().String()
	var meta []byte
	meta = appendField(meta, 1, version)
	meta = appendField(meta, 2, gvk.Kind)
	out := append([]byte(nil), protobufMagic...)
	out = appendField(out, 1, string(meta))
	out = append(out, 2<<3|2)
	return binary.AppendUvarint(out, uint64(size))
}

func appendField(out []byte, number byte, value string) []byte {
	return append(appendFieldHead(out, number, len(value)), value...)
}

func appendFieldHead(out []byte, number byte, size int) []byte {
	return binary.AppendUvarint(append(out, number<<3|2), uint64(size))
}

// Any writes an object that names its type itself: a Status, a Table, a Scale.
func Any(f Format, obj runtime.Object) ([]byte, error) {
	switch f.Media {
	case Protobuf:
		body, err := marshal(obj)
		if err != nil {
			return nil, err
		}
		return Envelope(obj.GetObjectKind().GroupVersionKind(), body), nil
	case YAML:
		return yaml.Marshal(obj)
	}
	doc, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	if f.Pretty {
		return indent(doc)
	}
	return append(doc, '\n'), nil
}
