package wire

import (
	"mime"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// As is the shape in which a client wants objects.
type As uint8

// The shapes.
const (
	Whole As = iota
	Table
	Metadata
)

// Format is what an answer looks like.
type Format struct {
	Media  Media
	As     As
	Pretty bool
	// Version of meta.k8s.io, for shapes other than Whole.
	Version string
}

// ContentType is the answer's.
func (f Format) ContentType() string {
	switch f.Media {
	case Protobuf:
		return ProtobufType
	case YAML:
		return YAMLType
	}
	return JSONType
}

// StreamType is that of a watch.
func (f Format) StreamType() string {
	if f.Media == JSON {
		return JSONType
	}
	return f.ContentType() + ";stream=watch"
}

// Offer says what can be answered at a path.
type Offer struct {
	Protobuf bool
	Shapes   bool
	Stream   bool
}

// maxClauses bounds the work on an Accept header.
const maxClauses = 32

// Negotiate picks the first clause of an Accept header that can be served, of
// those that the client likes best.
func Negotiate(accept string, offer Offer) (Format, error) {
	if strings.TrimSpace(accept) == "" {
		return Format{}, nil
	}
	best, bestQ, found := Format{}, -1.0, false
	for i, clause := range strings.Split(accept, ",") {
		if i >= maxClauses {
			break
		}
		f, q, ok := readClause(clause, offer)
		if ok && q > bestQ {
			best, bestQ, found = f, q, true
		}
	}
	if !found || bestQ <= 0 {
		return Format{}, notAcceptable(offer)
	}
	return best, nil
}

func readClause(clause string, offer Offer) (f Format, q float64, ok bool) {
	// The clauses of nearly all requests need no parser.
	switch strings.TrimSpace(clause) {
	case JSONType, "*/*", "application/*":
		return Format{}, 1, true
	case ProtobufType:
		return Format{Media: Protobuf}, 1, offer.Protobuf
	}
	media, params, err := mime.ParseMediaType(clause)
	if err != nil {
		return f, 0, false
	}
	q = 1
	if text, has := params["q"]; has {
		if q, err = strconv.ParseFloat(text, 64); err != nil || q != q {
			return f, 0, false
		}
	}
	if f.Media, ok = offer.media(media); !ok {
		return f, 0, false
	}
	if params["pretty"] == "1" || params["pretty"] == "true" {
		f.Pretty = true
	}
	if stream, has := params["stream"]; has && (stream != "watch" || !offer.Stream) {
		return f, 0, false
	}
	as, has := params["as"]
	if !has {
		return f, q, true
	}
	return shape(f, as, params, q, offer)
}

// media is what a media type asks for, if it is offered.
func (o Offer) media(name string) (m Media, ok bool) {
	switch name {
	case JSONType, "*/*", "application/*":
		return JSON, true
	case YAMLType, "text/yaml", "application/x-yaml":
		return YAML, !o.Stream
	case ProtobufType:
		return Protobuf, o.Protobuf
	}
	return JSON, false
}

func shape(f Format, as string, params map[string]string, q float64, offer Offer) (Format, float64, bool) {
	f.Version = params["v"]
	if !offer.Shapes || params["g"] != metav1.GroupName || (f.Version != "v1" && f.Version != "v1beta1") {
		return f, 0, false
	}
	switch as {
	case "Table":
		f.As = Table
		return f, q, f.Media != Protobuf
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		f.As = Metadata
		return f, q, true
	}
	return f, 0, false
}

func notAcceptable(offer Offer) error {
	types := []string{JSONType}
	if !offer.Stream {
		types = append(types, YAMLType)
	}
	if offer.Protobuf {
		types = append(types, ProtobufType)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 406, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + strings.Join(types, ", "),
	}}
}
