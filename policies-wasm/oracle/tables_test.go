package oracle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/sdk/policytest"
)

// TestTablesHoldAsGuests has the policies' own table tests write down what they
// ask, and asks the same of the bundles.
func TestTablesHoldAsGuests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "../predicates/...", "../priorities/...")
	cmd.Env = append(os.Environ(), policytest.Folder+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	recordings, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(recordings) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for name, built := range map[string]func() (bundles, error){"preferred": preferred, "stock": stock} {
		b, err := built()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range recordings {
			if err := b.replay(t, path); err != nil {
				t.Errorf("%s, %s: %v", name, filepath.Base(path), err)
			}
		}
	}
}

func (b bundles) replay(t *testing.T, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var guest speaker
	defer func() {
		if guest != nil {
			guest.close()
		}
	}()
	return policytest.Replay(f, func(export string, in []byte) (out []byte, packed uint64, err error) {
		if export == abi.FuncOpen {
			guest, err = b.choose(t, in)
			return nil, 0, err
		}
		if guest == nil {
			return nil, 0, errors.New("the recording does not begin by opening a policy")
		}
		switch export {
		case abi.FuncApply:
			return nil, 0, guest.apply(in)
		case abi.FuncPod:
			packed, err = guest.pod(in)
		case abi.FuncFilter:
			out, err = guest.filter(in)
		case abi.FuncScore:
			out, err = guest.score(in)
		case abi.FuncExplain:
			out, err = guest.refusal()
		default:
			err = fmt.Errorf("no table calls %s", export)
		}
		return out, packed, err
	})
}

// choose opens the policy that a config names in the bundle that has it.
func (b bundles) choose(t *testing.T, config []byte) (speaker, error) {
	var c abi.OpenConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	for _, module := range []*engine.Module{b.predicates, b.priorities} {
		manifest, err := abi.ReadManifest(module.Manifest())
		if err != nil {
			return nil, err
		}
		if manifest.Find(c.Policy) == nil {
			continue
		}
		in, err := module.Open(t.Context(), engine.OpenConfig{})
		if err != nil {
			return nil, err
		}
		return sandbox{in}, sandbox{in}.status(engine.FuncOpen, config)
	}
	return nil, fmt.Errorf("no bundle has a policy %s", c.Policy)
}
