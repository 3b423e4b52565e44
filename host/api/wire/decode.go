package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/berth-dev/berth/host/api/kind"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Media is a serialization.
type Media uint8

// The serializations that are spoken.
const (
	JSON Media = iota
	YAML
	Protobuf
)

// Names of the media types.
const (
	JSONType     = "application/json"
	YAMLType     = "application/yaml"
	ProtobufType = "application/vnd.kubernetes.protobuf"
)

// MaxDepth is how deep a JSON document may nest. The deepest type of the API
// nests about 20 levels; JSON schemas and the like more.
const MaxDepth = 1000

// maxParts is how many objects a body may be made of. An empty part takes two
// or three bytes on the wire and half a kilobyte in memory.
const maxParts = 100_000

// protobufMagic comes before every protobuf object.
var protobufMagic = []byte{'k', '8', 's', 0}

// BodyMedia reads a Content-Type. Empty means JSON, as with kubectl's oldest
// clients.
func BodyMedia(contentType string) (Media, error) {
	if contentType == "" {
		return JSON, nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil {
		switch media {
		case JSONType:
			return JSON, nil
		case YAMLType, "text/yaml", "application/x-yaml":
			return YAML, nil
		case ProtobufType:
			return Protobuf, nil
		}
	}
	return 0, unsupportedMedia()
}

func unsupportedMedia() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 415, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " +
			strings.Join([]string{JSONType, YAMLType, ProtobufType}, ", "),
	}}
}

// Decode reads body into into, which must be of the type that want names. The
// type that the body names, if any, must be that one; into ends up without.
func Decode(body []byte, media Media, want schema.GroupVersionKind, into runtime.Object, validation string, warn func(string)) error {
	said, err := decode(body, media, into, validation, warn)
	if err == nil {
		err = sameType(said, want)
	}
	into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(apierrors.APIStatus)):
		return err
	}
	if said.Kind == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(body)))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", said.Kind, said.Version, want.Kind, err))
}

func sameType(said, want schema.GroupVersionKind) error {
	switch {
	case said.Kind != "" && said.Kind != want.Kind:
		return fmt.Errorf("the kind in the data (%s) does not match the expected kind (%s)", said.Kind, want.Kind)
	case said.Version != "" && said.GroupVersion() != want.GroupVersion():
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", said.GroupVersion(), want.GroupVersion()))
	}
	return nil
}

// summary shows the beginning of a body that nothing could be made of.
func summary(body []byte) string {
	const shown = 30
	if len(body) > shown {
		return fmt.Sprintf("%q...", body[:shown])
	}
	return fmt.Sprintf("%q", body)
}

func decode(body []byte, media Media, into runtime.Object, validation string, warn func(string)) (schema.GroupVersionKind, error) {
	switch media {
	case Protobuf:
		return decodeProtobuf(body, into)
	case YAML:
		doc, err := yamlToJSON(body, validation, warn)
		if err != nil {
			return schema.GroupVersionKind{}, err
		}
		body = doc
	}
	err := decodeJSON(body, into, validation, warn)
	return into.GetObjectKind().GroupVersionKind(), err
}

// DecodeJSONInto reads a document into an object of any type, and returns it.
func DecodeJSONInto(doc []byte, into runtime.Object, validation string, warn func(string)) (runtime.Object, error) {
	return into, decodeJSON(doc, into, validation, warn)
}

func decodeJSON(doc []byte, into any, validation string, warn func(string)) error {
	if !utf8.Valid(doc) {
		return errors.New("the body is not valid UTF-8")
	}
	if err := CheckDepth(doc); err != nil {
		return err
	}
	if validation == metav1.FieldValidationIgnore {
		return kjson.UnmarshalCaseSensitivePreserveInts(doc, into)
	}
	strict, err := kjson.UnmarshalStrict(doc, into)
	if err != nil {
		return err
	}
	return report(strict, validation, warn)
}

// report warns of fields that are unknown or given twice, or refuses them.
func report(strict []error, validation string, warn func(string)) error {
	if len(strict) == 0 {
		return nil
	}
	if validation == metav1.FieldValidationStrict {
		return runtime.NewStrictDecodingError(strict)
	}
	for _, err := range strict {
		if warn != nil {
			warn(err.Error())
		}
	}
	return nil
}

// CheckDepth refuses JSON documents that nest beyond reason before anybody recurses
// into them.
func CheckDepth(doc []byte) error {
	if len(doc) <= MaxDepth {
		return nil
	}
	depth, parts, quoted := 0, 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			if parts++; parts > maxParts {
				return fmt.Errorf("the document is made of more than %d parts", maxParts)
			}
			if depth++; depth > MaxDepth {
				return fmt.Errorf("the document nests deeper than %d levels", MaxDepth)
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return nil
}

// yamlToJSON converts, after a first reading that refuses keys given twice.
func yamlToJSON(body []byte, validation string, warn func(string)) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not valid UTF-8")
	}
	if json.Valid(body) {
		return body, checkJSON(body, validation, warn)
	}
	if err := checkYAML(body); err != nil {
		return nil, err
	}
	doc, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, err
	}
	if validation == metav1.FieldValidationIgnore {
		return doc, nil
	}
	var any any
	if err := yaml.UnmarshalStrict(body, &any); err != nil {
		return doc, report([]error{err}, validation, warn)
	}
	return doc, nil
}

// checkJSON reads YAML that is JSON, which most is that clients send, in a
// fraction of the time.
func checkJSON(doc []byte, validation string, warn func(string)) error {
	if err := CheckDepth(doc); err != nil || validation == metav1.FieldValidationIgnore {
		return err
	}
	var any any
	strict, err := kjson.UnmarshalStrict(doc, &any)
	if err != nil {
		return err
	}
	return report(strict, validation, warn)
}

// maxAliases bounds how often a YAML document may refer back to a part of
// itself: manifests do it seldom, bombs are made of it.
const maxAliases = 200

// checkYAML refuses, without parsing, what would take a parser long: bombs of
// aliases, and flow collections or indents that nest beyond reason.
func checkYAML(body []byte) error {
	if bytes.Count(body, []byte("*")) > maxAliases && bytes.Count(body, []byte("&")) > 1 && aliases(body) > maxAliases {
		return fmt.Errorf("the document has more than %d aliases", maxAliases)
	}
	depth := 0
	for _, c := range body {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth > MaxDepth {
			return fmt.Errorf("the document nests deeper than %d levels", MaxDepth)
		}
	}
	if bytes.Count(body, []byte("- - - - - - - - - - - - - - - - ")) > MaxDepth/16 {
		return fmt.Errorf("the document nests deeper than %d levels", MaxDepth)
	}
	return nil
}

// aliases counts "*name" where a value may stand.
func aliases(body []byte) int {
	n := 0
	for i := 1; i+1 < len(body); i++ {
		if body[i] == '*' && bytes.IndexByte([]byte(" ,[\n:-"), body[i-1]) >= 0 && body[i+1] > ' ' {
			n++
		}
	}
	return n
}

func decodeProtobuf(body []byte, into runtime.Object) (schema.GroupVersionKind, error) {
	var none schema.GroupVersionKind
	message, ok := bytes.CutPrefix(body, protobufMagic)
	if !ok {
		return none, errors.New("the body does not begin with Kubernetes' protobuf prefix")
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(message); err != nil {
		return none, err
	}
	said := schema.FromAPIVersionAndKind(unknown.APIVersion, unknown.Kind)
	if unknown.ContentEncoding != "" || unknown.ContentType != "" && unknown.ContentType != ProtobufType {
		return said, fmt.Errorf("protobuf envelopes with content type %q and encoding %q are not understood", unknown.ContentType, unknown.ContentEncoding)
	}
	pb, ok := into.(interface{ Unmarshal([]byte) error })
	if !ok {
		return said, unsupportedMedia()
	}
	unmarshal := func(raw []byte) error {
		if err := checkParts(raw, into); err != nil {
			return err
		}
		if err := pb.Unmarshal(raw); err != nil {
			return err
		}
		return checkText(raw, into)
	}
	if pod, ok := into.(*corev1.Pod); ok {
		return said, pods.Replicas.Unmarshal(unknown.Raw, pod, unmarshal)
	}
	return said, unmarshal(unknown.Raw)
}

var pods = kind.MustStored("pods")

// DecodeApply reads an apply configuration: what the client wants, and nothing
// that it doesn't speak of.
func DecodeApply(body []byte, validation string, warn func(string)) (*unstructured.Unstructured, error) {
	doc, err := yamlToJSON(body, validation, warn)
	if err == nil {
		err = CheckDepth(doc)
	}
	var fields map[string]any
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(doc, &fields)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	obj := &unstructured.Unstructured{Object: fields}
	if obj.GetAPIVersion() == "" || obj.GetKind() == "" {
		return nil, apierrors.NewBadRequest("an apply configuration must have apiVersion and kind")
	}
	if err := obj.UnmarshalJSON(doc); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if len(obj.GetManagedFields()) > 0 {
		return nil, apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	return obj, nil
}

// DecodeOptions reads options of any version: their type is the same in all.
func DecodeOptions(body []byte, media Media, into runtime.Object) error {
	_, err := decode(body, media, into, metav1.FieldValidationIgnore, nil)
	return err
}
