package kind

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
)

func TestTheTableIsWhole(t *testing.T) {
	t.Parallel()
	names, short := map[string]string{}, map[string]string{}
	for _, k := range All {
		for _, gv := range k.Served {
			if got, ok := Lookup(gv, k.Resource); !ok || got != k {
				t.Errorf("%s %s is not found by its path", gv, k.Resource)
			}
			if got, ok := ByGVK(gv.WithKind(k.Name)); !ok || got != k {
				t.Errorf("%s %s is not found by its name", gv, k.Name)
			}
		}
		for _, s := range append(k.Short, k.Singular) {
			if other, ok := short[s]; ok && other != k.Resource {
				t.Errorf("%q is short for %s and %s", s, other, k.Resource)
			}
			short[s] = k.Resource
		}
		if k.Strategy == nil {
			continue
		}
		if other, ok := names[k.StoreName()]; ok {
			t.Errorf("%s and %s share %s", other, k.Name, k.StoreName())
		}
		names[k.StoreName()] = k.Name
		if k.Strategy.NamespaceScoped() != k.Namespaced {
			t.Errorf("%s: the strategy and the table disagree about namespaces", k.Name)
		}
		if got, ok := Of(k.New()); !ok || got != k {
			t.Errorf("%s is not found by its Go type", k.Name)
		}
		for _, sub := range k.Subresources {
			if sub.Strategy == nil && !sub.Connect && sub.Body.Empty() {
				t.Errorf("%s/%s does nothing", k.Resource, sub.Name)
			}
		}
		if _, hasScale := k.Sub("scale"); hasScale != (k.Scale != nil) {
			t.Errorf("%s: the scale subresource and its access disagree", k.Name)
		}
	}
}

func TestObjectsSurviveTheirEncodingAndEveryVersion(t *testing.T) {
	t.Parallel()
	for _, k := range All {
		if k.Strategy == nil {
			continue
		}
		obj := k.New()
		obj.SetName("a")
		obj.SetUID("u")
		obj.SetLabels(map[string]string{"x": "y"})
		data, err := Codec{}.Encode(obj)
		if err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		got, err := Codec{}.Decode(k.StoreName(), data)
		if err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		if diff := cmp.Diff(obj, got); diff != "" {
			t.Errorf("%s changes when it is stored:\n%s", k.Name, diff)
		}
		for _, gv := range k.Served {
			in, err := k.In(gv, obj)
			if err != nil {
				t.Errorf("%s in %s: %v", k.Name, gv, err)
				continue
			}
			back, err := k.From(in)
			if err != nil || back.GetName() != "a" || back.GetLabels()["x"] != "y" {
				t.Errorf("%s from %s: %v, %v", k.Name, gv, back, err)
			}
		}
	}
}

func TestWhatIsSharedIsTheObjectWithItsRevision(t *testing.T) {
	t.Parallel()
	for _, k := range All {
		if k.Strategy == nil || k.Own() {
			continue
		}
		for _, size := range []int{0, 50, 120, 400} { // lengths of one byte, about its end, and of two
			obj := k.New()
			obj.SetName("a")
			obj.SetLabels(map[string]string{"x": strings.Repeat("y", size)})
			data, err := Codec{}.Encode(obj)
			if err != nil {
				t.Fatalf("%s: %v", k.Name, err)
			}
			shared, ok := Codec{}.Share(SharedProtobuf, data, 1234567890123)
			if !ok {
				t.Fatalf("%s: its bytes cannot be shared", k.Name)
			}
			got, err := Codec{}.Decode(k.StoreName(), shared)
			if err != nil {
				t.Fatalf("%s: %v", k.Name, err)
			}
			obj.SetResourceVersion("1234567890123")
			if diff := cmp.Diff(obj, got); diff != "" {
				t.Errorf("%s changes when it is shared:\n%s", k.Name, diff)
			}
		}
	}
	for name, data := range map[string]string{
		"nothing": "", "one byte": "\n", "no metadata": "\x12\x01a", "a length beyond the end": "\n\x05a", "a length without an end": "\n\xff\xff",
	} {
		if got, ok := (Codec{}).Share(SharedProtobuf, []byte(data), 1); ok {
			t.Errorf("%s: shared as %q", name, got)
		}
	}
	if _, ok := (Codec{}).Share("json", []byte("\n\x00"), 1); ok {
		t.Error("protobuf is shared as JSON")
	}
}

func TestDecodeRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ resource, data string }{
		"another resource":   {"nosuch.example.com", ""},
		"broken protobuf":    {"pods", "\xff\xff\xff"},
		"broken JSON":        {"policies.policy.berth.dev", "{"},
		"a kind not stored":  {"tokenreviews.authentication.k8s.io", ""},
		"an empty own kind":  {"policies.policy.berth.dev", ""},
		"a truncated string": {"pods", "\x0a\x7f"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if obj, err := (Codec{}).Decode(c.resource, []byte(c.data)); err == nil {
				t.Errorf("Decode = %v, want an error", obj)
			}
		})
	}
}

func TestPodsEndGracefullyAndOthersDoNot(t *testing.T) {
	t.Parallel()
	for _, k := range All {
		_, graceful := k.Strategy.(rest.RESTGracefulDeleteStrategy)
		if graceful && k.Name != "Pod" {
			t.Errorf("%s has a grace of its own", k.Name)
		}
	}
	pod := &corev1.Pod{}
	if podField(pod, "spec.hostNetwork") != "false" {
		t.Error("a pod without a host network says otherwise")
	}
	if _, ok := ByName(schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}); !ok {
		t.Error("events are not found by their other group")
	}
}
