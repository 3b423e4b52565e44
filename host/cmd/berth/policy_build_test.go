package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

const gpuOnly = "../../../examples/gpu-only"

func TestABuiltPolicyIsInspected(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gpu.wasm")
	mustBerth(t, "policy", "build", gpuOnly, "--go", "-o", file)
	shown := mustBerth(t, "policy", "inspect", file)
	for _, want := range []string{"GPUOnly", "predicate", "all of pod and node", "bytes of the largest function"} {
		if !strings.Contains(shown, want) {
			t.Errorf("inspect does not show %q:\n%s", want, shown)
		}
	}
	var seen inspected
	if err := json.Unmarshal([]byte(mustBerth(t, "policy", "inspect", file, "-o", "json")), &seen); err != nil {
		t.Fatal(err)
	}
	if seen.Manifest.Find("GPUOnly") == nil || seen.Report.Functions == 0 || len(seen.Report.Imports) == 0 {
		t.Errorf("inspect -o json = %+v", seen)
	}
}

// The built-in predicates have long descriptions, and read much.
func TestWhatIsInspectedFitsTheScreen(t *testing.T) {
	t.Parallel()
	file := bundled(t, "predicates")
	shown := mustBerth(t, "policy", "inspect", file)
	for _, line := range strings.Split(shown, "\n") {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
	for _, want := range []string{"HostName: The pod names no node, or this one. Reads pod.affinity, node.name.", "Imports: ", "LIMIT"} {
		if !strings.Contains(shown, want) {
			t.Errorf("inspect does not show %q:\n%s", want, shown)
		}
	}
	if bare := mustBerth(t, "policy", "inspect", file, "--no-headers"); strings.Contains(bare, "POLICY") || strings.Contains(bare, "LIMIT") || !strings.Contains(bare, "HostName") {
		t.Errorf("inspect --no-headers:\n%s", bare)
	}
	if wide := mustBerth(t, "policy", "inspect", file, "-o", "wide"); !strings.Contains(wide, "pod.affinity,node.name ") || !strings.Contains(wide, "DESCRIPTION") {
		t.Errorf("inspect -o wide:\n%s", wide)
	}
	var seen inspected
	if err := json.Unmarshal([]byte(mustBerth(t, "policy", "inspect", file, "-o", "json")), &seen); err != nil {
		t.Fatal(err)
	}
	if name := mustBerth(t, "policy", "inspect", file, "-o", "name"); name != "module.policy.berth.dev/"+v1alpha1.ModuleName(seen.Digest)+"\n" {
		t.Errorf("inspect -o name = %q", name)
	}
}

func TestInspectRefusesWhatAHostWould(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "no.wasm")
	write(t, file, "\x00asm\x01\x00\x00\x00no module")
	out, err := berth(t, "policy", "inspect", file)
	if err == nil || !strings.Contains(err.Error(), "a host would refuse") {
		t.Errorf("inspect of no module = %q, %v", out, err)
	}
}

func TestALivePolicyIsInspectedByItsName(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	if out := mustBerth(t, "policy", "inspect", "PodFitsResources", "--kubeconfig", kubeconfig); !strings.Contains(out, "PodFitsResources") || !strings.Contains(out, "predicate") {
		t.Errorf("inspect of a live policy:\n%s", out)
	}
	if out, err := berth(t, "policy", "inspect", "none", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), `neither a file nor a folder here, and no policy of that name is live`) {
		t.Errorf("inspect of none = %v\n%s", err, out)
	}
}

// Who may upload sends a module again with signatures that nobody trusts, beside the
// one that lets it in: that one stays all the same.
func TestInventedSignaturesPushNoTrustedOneOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	private, public := writeKeys(t, dir)
	keys, err := module.ReadKeyring(filepath.Dir(public))
	if err != nil {
		t.Fatal(err)
	}
	key, err := module.ReadPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, _ := startHost(t, t.TempDir(), func(c *host.Config) { c.TrustedKeys = filepath.Dir(public) })
	c, err := newClient(kubeconfig, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	wasm := policytest.Guest{Name: "made", Version: "1", Refuse: -1}.Bytes()
	trusted := module.Sign(key, wasm)
	var m *v1alpha1.Module
	for round := range byte(2) {
		all := []v1alpha1.Signature{trusted}
		for i := range byte(module.MaxSignatures - 1) {
			all = append(all, v1alpha1.Signature{KeyID: fmt.Sprintf("ed25519:%02x%02x", round, i), Value: make([]byte, ed25519.SignatureSize)})
		}
		if m, err = c.upload(t.Context(), wasm, all, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := keys.Verify(sha256.Sum256(wasm), m.Spec.Signatures); err != nil || len(m.Spec.Signatures) != module.MaxSignatures {
		t.Errorf("of the %d signatures that it has now: %v", len(m.Spec.Signatures), err)
	}
}

func TestASignatureIsVerified(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	private, public := writeKeys(t, dir)
	wasm, signature := filepath.Join(dir, "a.wasm"), filepath.Join(dir, "a.sig")
	write(t, wasm, "\x00asm a module")
	line := mustBerth(t, "policy", "sign", private, wasm)
	write(t, signature, line)
	mustBerth(t, "policy", "verify", public, wasm, "@"+signature)
	mustBerth(t, "policy", "verify", public, wasm, line)
	write(t, wasm, "\x00asm another module")
	if out, err := berth(t, "policy", "verify", public, wasm, line); err == nil {
		t.Errorf("verify took another module: %s", out)
	}
}

func writeKeys(t *testing.T, dir string) (private, public string) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	private, public = filepath.Join(dir, "key.pem"), filepath.Join(dir, "key.pub")
	write(t, private, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	if der, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		t.Fatal(err)
	}
	write(t, public, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	return private, public
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
