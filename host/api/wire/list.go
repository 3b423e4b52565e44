package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/berth-dev/berth/host/store"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

type listMeta = metav1.ListMeta

// Page is a list to be written.
type Page struct {
	Items []store.Object
	Meta  metav1.ListMeta
	// Shared gives the encoding of an item that others may have made already.
	Shared func(i int, format string, encode func(store.Object) ([]byte, error)) ([]byte, error)
}

// List writes a page to w. Nothing is written before all items are encoded, so
// an error can still become an answer of its own.
func (t *Typed) List(w io.Writer, p *Page) error {
	switch t.Format.As {
	case Table:
		data, err := t.tableOf(p.Items, p.Meta, true)
		return writeOne(w, data, err)
	case Metadata:
		data, err := t.metadataList(p)
		return writeOne(w, data, err)
	}
	bodies := make([][]byte, len(p.Items))
	for i := range p.Items {
		body, err := p.Shared(i, t.share(), t.body)
		if err != nil {
			return err
		}
		bodies[i] = body
	}
	if t.Format.Media == Protobuf {
		return t.protobufList(w, p.Meta, bodies)
	}
	return t.jsonList(w, p.Meta, bodies)
}

func writeOne(w io.Writer, data []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// chunk is what goes into one write: TLS makes records of 16 KiB anyway.
const chunk = 64 << 10

func (t *Typed) listGVK() schema.GroupVersionKind { return t.Version.WithKind(t.Kind.Name + "List") }

func (t *Typed) jsonList(w io.Writer, listed metav1.ListMeta, bodies [][]byte) error {
	head, err := json.Marshal(listed)
	if err != nil {
		return err
	}
	var whole bytes.Buffer
	out := bufio.NewWriterSize(w, chunk)
	if t.Format.Media == YAML || t.Format.Pretty {
		out = bufio.NewWriter(&whole)
	}
	out.WriteString(typeJSON(t.listGVK()))
	out.WriteString(`,"metadata":`)
	out.Write(head)
	out.WriteString(`,"items":[`)
	for i, body := range bodies {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(body)
	}
	out.WriteString("]}\n")
	if err := out.Flush(); err != nil || whole.Len() == 0 {
		return err
	}
	if t.Format.Media == YAML {
		data, err := yaml.JSONToYAML(whole.Bytes())
		return writeOne(w, data, err)
	}
	data, err := indent(bytes.TrimSpace(whole.Bytes()))
	return writeOne(w, data, err)
}

// protobufList writes what every list type of Kubernetes is: field 1 holds the
// metadata, field 2 the items.
func (t *Typed) protobufList(w io.Writer, listed metav1.ListMeta, bodies [][]byte) error {
	head, err := listed.Marshal()
	if err != nil {
		return err
	}
	size := fieldSize(len(head))
	for _, body := range bodies {
		size += fieldSize(len(body))
	}
	out := bufio.NewWriterSize(w, chunk)
	out.Write(envelopeHead(t.listGVK(), size))
	var prefix [1 + binary.MaxVarintLen64]byte
	field := func(number byte, body []byte) {
		prefix[0] = number<<3 | 2
		n := binary.PutUvarint(prefix[1:], uint64(len(body)))
		out.Write(prefix[:1+n])
		out.Write(body)
	}
	field(1, head)
	for _, body := range bodies {
		field(2, body)
	}
	out.WriteString(envelopeTail)
	return out.Flush()
}

// fieldSize is the room that a length-delimited field of n bytes takes.
func fieldSize(n int) int {
	return 1 + varintSize(n) + n
}

func varintSize(n int) int {
	size := 1
	for rest := n >> 7; rest > 0; rest >>= 7 {
		size++
	}
	return size
}

func (t *Typed) metadataList(p *Page) ([]byte, error) {
	gv := schema.GroupVersion{Group: metav1.GroupName, Version: t.Format.Version}
	list := &metav1.PartialObjectMetadataList{ListMeta: p.Meta, Items: make([]metav1.PartialObjectMetadata, len(p.Items))}
	list.SetGroupVersionKind(gv.WithKind("PartialObjectMetadataList"))
	for i, obj := range p.Items {
		list.Items[i] = *partial(t.Format.Version, obj)
	}
	return Any(t.Format, list)
}

// partial is the metadata of an object, as an object of its own.
func partial(version string, obj store.Object) *metav1.PartialObjectMetadata {
	p := meta.AsPartialObjectMetadata(obj)
	p.SetGroupVersionKind(schema.GroupVersionKind{Group: metav1.GroupName, Version: version, Kind: "PartialObjectMetadata"})
	return p
}
