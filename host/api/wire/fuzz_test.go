package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api/kind"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func examplePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
	}
}

// FuzzDecode gives anything to the decoders of bodies: what comes out is a pod
// that can be encoded again, or an error that the client is to blame for.
func FuzzDecode(f *testing.F) {
	k := kind.MustStored("pods")
	for _, media := range []Media{JSON, YAML, Protobuf} {
		t := Typed{Kind: k, Version: k.Stored(), Format: Format{Media: media}}
		data, err := t.Object(examplePod())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(media), data)
	}
	f.Add(uint8(YAML), []byte("a: &a [x]\nb: [*a, *a]"))
	f.Add(uint8(JSON), []byte(strings.Repeat("[", 2000)))
	f.Add(uint8(Protobuf), []byte("k8s\x00\x0a\x0f"))
	portless, unmanaged := examplePod(), examplePod()
	portless.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.IntOrString{Type: 9}}}}
	unmanaged.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1("{")}}
	for _, pod := range []*corev1.Pod{portless, unmanaged} {
		typed := Typed{Kind: k, Version: k.Stored(), Format: Format{Media: Protobuf}}
		data, err := typed.Object(pod)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(Protobuf), data)
	}
	f.Fuzz(func(t *testing.T, media uint8, body []byte) {
		begun := processorTime()
		into := k.New()
		err := Decode(body, Media(media%3), k.GVK(), into, metav1.FieldValidationStrict, nil)
		if took := processorTime() - begun; took > 30*time.Second {
			t.Fatalf("decoding %d bytes took %v", len(body), took)
		}
		if err != nil {
			if code := apierrors.ReasonForError(err); code != metav1.StatusReasonBadRequest && code != metav1.StatusReasonUnsupportedMediaType {
				t.Fatalf("Decode = %v (%s), want an error of the client's", err, code)
			}
			return
		}
		for _, format := range []Format{{Media: JSON}, {Media: Protobuf}, {Media: JSON, As: Table, Version: "v1"}, {Media: JSON, As: Metadata, Version: "v1"}} {
			typed := Typed{Kind: k, Version: k.Stored(), Format: format}
			_, err := typed.Object(into)
			if Media(media%3) == Protobuf && errors.As(err, new(*json.MarshalerError)) {
				continue // it holds what JSON has no form for, which validation refuses
			}
			if err != nil {
				t.Fatalf("a pod that was decoded cannot be encoded as %+v: %v", format, err)
			}
		}
	})
}

// processorTime is what this process has had of processors: unlike the time on
// the clock, it does not grow while others have them.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// FuzzDecodeApply does the same for apply configurations.
func FuzzDecodeApply(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"))
	f.Add([]byte("- a"))
	f.Add([]byte("apiVersion: 1\nkind: [x]\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		obj, err := DecodeApply(body, metav1.FieldValidationWarn, nil)
		if err == nil && obj.GetKind() == "" {
			t.Fatal("an apply configuration without a kind was taken")
		}
		if err != nil && !apierrors.IsBadRequest(err) {
			t.Fatalf("DecodeApply = %v, want BadRequest", err)
		}
	})
}

// FuzzNegotiate gives anything as an Accept header.
func FuzzNegotiate(f *testing.F) {
	f.Add("application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	f.Add("application/vnd.kubernetes.protobuf,*/*;q=0.1")
	f.Add(";;;q=NaN")
	f.Fuzz(func(t *testing.T, accept string) {
		format, err := Negotiate(accept, Offer{Protobuf: true, Shapes: true})
		if err != nil {
			if apierrors.ReasonForError(err) != metav1.StatusReasonNotAcceptable {
				t.Fatalf("Negotiate(%q) = %v", accept, err)
			}
			return
		}
		typed := Typed{Kind: kind.MustStored("pods"), Version: corev1.SchemeGroupVersion, Format: format}
		if _, err := typed.Object(examplePod()); err != nil {
			t.Fatalf("Negotiate(%q) = %+v, which cannot be served: %v", accept, format, err)
		}
	})
}
