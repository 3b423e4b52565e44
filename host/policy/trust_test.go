package policy_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/builtin"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/store"
)

func keyOf(seed byte) (ed25519.PrivateKey, module.Keyring) {
	sum := sha256.Sum256([]byte{seed})
	key := ed25519.NewKeyFromSeed(sum[:])
	public := key.Public().(ed25519.PublicKey)
	return key, module.Keyring{module.KeyID(public): public}
}

// trusting is another loader over the same objects, which trusts a key.
func (r *rig) trusting(t testing.TB, ring module.Keyring) *rig {
	t.Helper()
	again := *r
	config := r.Config
	config.Trusted = ring
	again.Loader = policy.NewLoader(config)
	if err := builtin.Install(t.Context(), again.Loader); err != nil {
		t.Fatal(err)
	}
	again.Load(t.Context())
	return &again
}

func (r *rig) signed(t testing.TB, module string, by ...v1alpha1.Signature) {
	t.Helper()
	_, err := r.store.Update(t.Context(), store.Key{Resource: v1alpha1.Modules, Name: module}, func(o store.Object) (store.Object, error) {
		m := o.(*v1alpha1.Module).DeepCopy()
		m.Spec.Signatures = by
		return m, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Load(t.Context())
}

func TestAHostThatBeginsToTrustKeysRefusesWhatNobodySigned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	wasm := guest{Name: "made", Version: "1", Refuse: -1}.Bytes()
	name := r.upload(t, wasm)
	r.put(t, "made", withModule(name))
	key, ring := keyOf(1)
	other, _ := keyOf(2)
	again := r.trusting(t, ring)
	if p := again.policy(t, "made"); p.Status.Phase != v1alpha1.PhaseRefused || !strings.Contains(p.Status.Message, "no trusted key") {
		t.Errorf("the policy of an unsigned module is %s: %s", p.Status.Phase, p.Status.Message)
	}
	if p := again.policy(t, "PodFitsResources"); p.Status.Phase != v1alpha1.PhaseLive {
		t.Errorf("a built-in policy is %s: %s", p.Status.Phase, p.Status.Message)
	}
	again.signed(t, name, module.Sign(other, wasm), module.Sign(key, []byte("another module")))
	if p := again.policy(t, "made"); p.Status.Phase != v1alpha1.PhaseRefused {
		t.Errorf("signed by another key, and for another module, it is %s", p.Status.Phase)
	}
	again.signed(t, name, module.Sign(other, wasm), module.Sign(key, wasm))
	if p := again.policy(t, "made"); p.Status.Phase != v1alpha1.PhaseLive || p.Status.Message != "" {
		t.Errorf("signed by several keys, one of them trusted, it is %s: %s", p.Status.Phase, p.Status.Message)
	}
}

func TestAKeyThatIsNotTrustedAnyMoreDoesNotCount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	wasm := guest{Name: "made", Version: "1", Refuse: -1}.Bytes()
	name := r.upload(t, wasm)
	old, _ := keyOf(1)
	r.signed(t, name, module.Sign(old, wasm))
	r.put(t, "made", withModule(name))
	_, ring := keyOf(2)
	if p := r.trusting(t, ring).policy(t, "made"); p.Status.Phase != v1alpha1.PhaseRefused {
		t.Errorf("signed by a key of previous times it is %s", p.Status.Phase)
	}
}

func TestNothingUnsignedIsTriedEither(t *testing.T) {
	t.Parallel()
	key, ring := keyOf(1)
	r := newRig(t).trusting(t, ring)
	wasm := guest{Name: "made", Version: "1", Refuse: -1}.Bytes()
	if _, err := r.Vary(t.Context(), []trial.Variation{{Name: "made", Wasm: wasm, Profile: "default"}}); !errors.Is(err, module.ErrUnsigned) {
		t.Errorf("Vary by an unsigned module = %v", err)
	}
	v, err := r.Vary(t.Context(), []trial.Variation{{Name: "made", Wasm: wasm, Profile: "default", Signatures: []v1alpha1.Signature{module.Sign(key, wasm)}}})
	if err != nil {
		t.Fatalf("Vary by a signed module: %v", err)
	}
	v.Release()
}

// A spec that was refused stays refused over a restart, and what was live stays
// live.
func TestARestartKeepsTheLastGoodRevision(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*rig, *v1alpha1.PolicySpec){
		"a module that refuses its config": func(r *rig, s *v1alpha1.PolicySpec) {
			s.Module = r.upload(t, guest{Name: "made", Version: "2", BadOpen: true}.Bytes())
		},
		"a module that is not there":  func(_ *rig, s *v1alpha1.PolicySpec) { s.Module = "sha256-" + strings.Repeat("0", 64) },
		"an entry that is not in it":  func(_ *rig, s *v1alpha1.PolicySpec) { s.Entry = "another" },
		"limits that are not enough":  func(_ *rig, s *v1alpha1.PolicySpec) { s.Limits = &v1alpha1.PolicyLimits{MemoryBytes: 1 << 16} },
		"what is no digest of module": func(_ *rig, s *v1alpha1.PolicySpec) { s.Module = "made" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.withNodes(4)
			r.put(t, "made", withModule(r.upload(t, guest{Name: "made", Version: "1", Mask: 1, Refuse: 0}.Bytes())))
			r.join(t, "made", "predicate")
			before := r.put(t, "made", func(s *v1alpha1.PolicySpec) { change(r, s) })
			if before.Status.Phase != v1alpha1.PhaseRefused || before.Status.Live == "" {
				t.Fatalf("the policy is %+v", before.Status)
			}
			again := r.restarted(t)
			if diff := cmp.Diff(before.Status, again.policy(t, "made").Status); diff != "" {
				t.Errorf("status after a restart (-before +after):\n%s", diff)
			}
			for i := range 8 {
				if got := again.decide(t, podNamed(i)); got != "n1" && got != "n3" {
					t.Fatalf("a pod went to %s, which the live revision refuses", got)
				}
			}
		})
	}
}

func podNamed(i int) *v1.Pod { return clustertest.Pod(fmt.Sprint("pod-", i), "10m", "1Mi", nil) }
