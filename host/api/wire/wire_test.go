package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

func direct(objs []store.Object) func(int, string, func(store.Object) ([]byte, error)) ([]byte, error) {
	return func(i int, _ string, encode func(store.Object) ([]byte, error)) ([]byte, error) {
		return encode(objs[i])
	}
}

// TestAListReadsBackAsItsType holds the lists that are put together by hand to
// what Kubernetes' own decoders read.
func TestAListReadsBackAsItsType(t *testing.T) {
	t.Parallel()
	k := kind.MustStored("pods")
	one, two := examplePod(), examplePod()
	two.Name = strings.Repeat("b", 300) // a length of two bytes
	objs := []store.Object{one, two}
	left := int64(7)
	page := &Page{Items: objs, Shared: direct(objs), Meta: metav1.ListMeta{ResourceVersion: "5", Continue: "next", RemainingItemCount: &left}}
	want := &corev1.PodList{ListMeta: page.Meta, Items: []corev1.Pod{*one, *two}}
	for _, media := range []Media{JSON, Protobuf} {
		typed := Typed{Kind: k, Version: k.Stored(), Format: Format{Media: media}}
		var buf bytes.Buffer
		if err := typed.List(&buf, page); err != nil {
			t.Fatal(err)
		}
		got := &corev1.PodList{}
		if media == JSON {
			if err := json.Unmarshal(buf.Bytes(), got); err != nil {
				t.Fatal(err)
			}
			if got.Kind != "PodList" || got.APIVersion != "v1" {
				t.Errorf("the list is a %s of %s", got.Kind, got.APIVersion)
			}
		} else if _, gvk, err := protobuf.NewSerializer(kind.Scheme, kind.Scheme).Decode(buf.Bytes(), nil, got); err != nil || gvk.Kind != "PodList" {
			t.Fatalf("decode = %v, %v", gvk, err)
		}
		got.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
	}
}

func TestAnEnvelopeIsKubernetesOwn(t *testing.T) {
	t.Parallel()
	k := kind.MustStored("pods")
	p := examplePod()
	p.SetGroupVersionKind(k.GVK())
	want, err := runtime.Encode(protobuf.NewSerializer(kind.Scheme, kind.Scheme), p)
	if err != nil {
		t.Fatal(err)
	}
	typed := Typed{Kind: k, Version: k.Stored(), Format: Format{Media: Protobuf}}
	got, err := typed.Object(examplePod())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("envelope = %q, want %q", got, want)
	}
}

func TestAnEventOfAStreamIsKubernetesOwn(t *testing.T) {
	t.Parallel()
	k := kind.MustStored("pods")
	p := examplePod()
	s := Stream{Typed: Typed{Kind: k, Version: k.Stored(), Format: Format{Media: Protobuf}}}
	var out bytes.Buffer
	for _, size := range []int{0, 100, 20_000} {
		p.Annotations = map[string]string{"a": strings.Repeat("x", size)}
		shared := func(_ string, encode func(store.Object) ([]byte, error)) ([]byte, error) { return encode(p) }
		if err := s.Write(&out, &Change{Type: watch.Modified, Object: p, Shared: shared}); err != nil {
			t.Fatal(err)
		}
		frame := make([]byte, binary.BigEndian.Uint32(out.Next(4)))
		if n, _ := out.Read(frame); n != len(frame) || out.Len() > 0 {
			t.Fatalf("%d bytes in a frame of %d, %d behind it", n, len(frame), out.Len())
		}
		var event metav1.WatchEvent
		if err := event.Unmarshal(frame); err != nil || event.Type != "MODIFIED" {
			t.Fatalf("event %q, %v", event.Type, err)
		}
		got, _, err := protobuf.NewSerializer(kind.Scheme, kind.Scheme).Decode(event.Object.Raw, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := p.DeepCopy()
		want.SetGroupVersionKind(got.GetObjectKind().GroupVersionKind())
		if diff := cmp.Diff(runtime.Object(want), got); diff != "" {
			t.Errorf("object (-want +got):\n%s", diff)
		}
	}
}

func TestNegotiate(t *testing.T) {
	t.Parallel()
	all := Offer{Protobuf: true, Shapes: true}
	for name, c := range map[string]struct {
		accept string
		offer  Offer
		want   Format
		err    bool
	}{
		"nothing means JSON":                         {"", all, Format{}, false},
		"anything means JSON":                        {"*/*", all, Format{}, false},
		"protobuf where there is some":               {"application/vnd.kubernetes.protobuf,application/json", all, Format{Media: Protobuf}, false},
		"the next where there is none":               {"application/vnd.kubernetes.protobuf,application/json", Offer{}, Format{}, false},
		"nothing left to serve":                      {"application/vnd.kubernetes.protobuf", Offer{}, Format{}, true},
		"a table as kubectl asks for it":             {"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", all, Format{As: Table, Version: "v1"}, false},
		"a table of a version that isn't there":      {"application/json;as=Table;v=v9;g=meta.k8s.io,application/json", all, Format{}, false},
		"metadata alone":                             {"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", all, Format{Media: Protobuf, As: Metadata, Version: "v1"}, false},
		"quality decides":                            {"application/json;q=0.5,application/yaml;q=0.9", all, Format{Media: YAML}, false},
		"what the client refuses":                    {"application/json;q=0", all, Format{}, true},
		"images":                                     {"image/png", all, Format{}, true},
		"YAML doesn't stream":                        {"application/yaml", Offer{Stream: true}, Format{}, true},
		"a stream that is asked for as one, in JSON": {"application/json;stream=watch", Offer{Stream: true}, Format{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Negotiate(c.accept, c.offer)
			if got != c.want || (err != nil) != c.err {
				t.Errorf("Negotiate(%q) = %+v, %v, want %+v", c.accept, got, err, c.want)
			}
		})
	}
}
