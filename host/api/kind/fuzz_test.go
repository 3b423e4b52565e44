package kind

import (
	"bytes"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// FuzzCodec reads anything as a stored object of each kind, as a start does with
// what lies on disk, and as the store does when it shares what is stored.
func FuzzCodec(f *testing.F) {
	names := []string{"pods", "nodes", "deployments.apps", "policies.policy.berth.dev", "modules.policy.berth.dev", "profiles.policy.berth.dev", "secrets", "gone"}
	for i := range names {
		f.Add(uint8(i), []byte("\n\x06\n\x01a\x1a\x01b"), int64(7))
		f.Add(uint8(i), []byte("\n\x86\x80\x80\x00\n\x01a\x1a\x01b"), int64(7)) // a length in more bytes than it needs
		f.Add(uint8(i), []byte(`{"metadata":{"name":"a"},"spec":{"module":"sha256-0"}}`), int64(1))
	}
	f.Add(uint8(3), []byte(`{"metadata":{"creationTimestamp":"9999-12-31T23:59:59-23:59"}}`), int64(1)) // in UTC, the year 10000
	f.Fuzz(func(t *testing.T, which uint8, data []byte, revision int64) {
		resource := names[int(which)%len(names)]
		Codec{}.Share(SharedProtobuf, data, revision)
		object, err := Codec{}.Decode(resource, data)
		if err != nil {
			return
		}
		first, err := Codec{}.Encode(object)
		if apierrors.IsBadRequest(err) {
			return // nor would a client's be stored
		}
		if err != nil {
			t.Fatalf("what was read of %s is not written: %v", resource, err)
		}
		again, err := Codec{}.Decode(resource, first)
		if err != nil {
			t.Fatalf("what was written of %s is not read: %v", resource, err)
		}
		if second, err := (Codec{}).Encode(again); err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s is written as %q, then as %q, %v", resource, first, second, err)
		}
		shared, ok := Codec{}.Share(SharedProtobuf, first, revision)
		if !ok {
			return // JSON is not shared as protobuf
		}
		got, err := Codec{}.Decode(resource, shared)
		if err != nil {
			t.Fatalf("what is shared of %s is not read: %v", resource, err)
		}
		if want := strconv.FormatInt(revision, 10); got.GetResourceVersion() != want {
			t.Errorf("%s is shared with the revision %q, want %q", resource, got.GetResourceVersion(), want)
		}
		if rest, err := (Codec{}).Encode(got); err != nil || !bytes.Equal(first, rest) {
			t.Errorf("%s is written as %q, and as %q when it was shared, %v", resource, first, rest, err)
		}
	})
}
