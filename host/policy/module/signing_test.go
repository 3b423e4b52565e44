package module

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func TestASignatureSurvivesItsText(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := ReadPrivateKey(file)
	if err != nil {
		t.Fatal(err)
	}
	wasm := []byte("a module")
	signature, err := ParseSignature(FormatSignature(Sign(read, wasm)) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	public := key.Public().(ed25519.PublicKey)
	ring := Keyring{KeyID(public): public}
	if err := ring.Verify(sha256.Sum256(wasm), []v1alpha1.Signature{signature}); err != nil {
		t.Errorf("Verify of what was signed: %v", err)
	}
	if err := ring.Verify(sha256.Sum256([]byte("another")), []v1alpha1.Signature{signature}); !errors.Is(err, ErrUnsigned) {
		t.Errorf("Verify of another module = %v, want ErrUnsigned", err)
	}
}

// Whoever may upload may send any signatures; those of trusted keys stay.
func TestSignaturesOfTrustedKeysGiveWayLast(t *testing.T) {
	t.Parallel()
	wasm := []byte("a module")
	sign := func(seed byte) (v1alpha1.Signature, ed25519.PublicKey) {
		key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
		return Sign(key, wasm), key.Public().(ed25519.PublicKey)
	}
	trusted, public := sign(1)
	ring := Keyring{KeyID(public): public}
	var invented []v1alpha1.Signature
	for i := range byte(2 * MaxSignatures) {
		s, _ := sign(100 + i)
		invented = append(invented, s)
	}
	forged := v1alpha1.Signature{KeyID: trusted.KeyID, Value: make([]byte, ed25519.SignatureSize)}
	for name, tt := range map[string]struct {
		ring      Keyring
		all, want []v1alpha1.Signature
	}{
		"few stay":                         {ring, invented[:3], invented[:3]},
		"the newest of nobody's stay":      {ring, invented[:MaxSignatures+2], invented[2 : MaxSignatures+2]},
		"a trusted one stays":              {ring, append([]v1alpha1.Signature{trusted}, invented[:MaxSignatures]...), append([]v1alpha1.Signature{trusted}, invented[1:MaxSignatures]...)},
		"not one that only bears its name": {ring, append([]v1alpha1.Signature{forged}, invented[:MaxSignatures]...), invented[:MaxSignatures]},
		"of trusted ones the newest stay":  {ring, slices.Repeat([]v1alpha1.Signature{trusted}, MaxSignatures+1), slices.Repeat([]v1alpha1.Signature{trusted}, MaxSignatures)},
		"where no key is trusted":          {nil, append([]v1alpha1.Signature{trusted}, invented[:MaxSignatures]...), invented[:MaxSignatures]},
	} {
		if diff := cmp.Diff(tt.want, tt.ring.Bounded(sha256.Sum256(wasm), slices.Clone(tt.all))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBadSignaturesAndKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "=", "ed25519:00", "ed25519:00=!", "ed25519:00=AAAA"} {
		if _, err := ParseSignature(line); err == nil {
			t.Errorf("ParseSignature(%q) took it", line)
		}
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivateKey(file); err == nil {
		t.Error("ReadPrivateKey took what is no key")
	}
}

func FuzzParseSignature(f *testing.F) {
	f.Add("key=" + strings.Repeat("A", 86) + "==")
	f.Add("=")
	f.Fuzz(func(t *testing.T, line string) {
		s, err := ParseSignature(line)
		if err != nil {
			return
		}
		if again, err := ParseSignature(FormatSignature(s)); err != nil || again.KeyID != s.KeyID || !bytes.Equal(again.Value, s.Value) {
			t.Errorf("ParseSignature(%q) = %v, read again %v, %v", line, s, again, err)
		}
	})
}
