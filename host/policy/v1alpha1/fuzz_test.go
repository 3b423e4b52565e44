package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// FuzzDigest gives anything as the name of a module.
func FuzzDigest(f *testing.F) {
	f.Add("sha256-" + strings.Repeat("0", 64))
	f.Add("sha256:" + strings.Repeat("AF", 32))
	f.Add("sha256-sha256:")
	f.Fuzz(func(t *testing.T, name string) {
		digest, err := v1alpha1.Digest(name)
		if err != nil {
			return
		}
		if len(digest) != len("sha256:")+64 || strings.ContainsAny(digest, "/\\. ") {
			t.Errorf("Digest(%q) = %q", name, digest)
		}
		if again, err := v1alpha1.Digest(v1alpha1.ModuleName(digest)); again != digest || err != nil {
			t.Errorf("the digest of %q is %q, %v; want %q", v1alpha1.ModuleName(digest), again, err, digest)
		}
	})
}
