package image

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWhoMayUseWhatOthersPulled(t *testing.T) {
	t.Parallel()
	const id, ref = "sha256:1", "registry.test/team/app:1"
	alice, bob := Credential{Username: "alice", Password: "a"}, Credential{Username: "bob", Password: "b"}
	for name, test := range map[string]struct {
		before func(p *Pulls) error
		ref    string
		creds  []Credential
		want   bool
	}{
		"an image that was imported is for all":         {func(*Pulls) error { return nil }, ref, nil, true},
		"one that was pulled without credentials is":    {func(p *Pulls) error { return p.Pulled(id, ref, nil) }, ref, nil, true},
		"who pulled it may use it":                      {func(p *Pulls) error { return p.Pulled(id, ref, &alice) }, ref, []Credential{bob, alice}, true},
		"by another tag, too":                           {func(p *Pulls) error { return p.Pulled(id, ref, &alice) }, "registry.test/team/app:2", []Credential{alice}, true},
		"others may not":                                {func(p *Pulls) error { return p.Pulled(id, ref, &alice) }, ref, []Credential{bob}, false},
		"nor may who has no credentials":                {func(p *Pulls) error { return p.Pulled(id, ref, &alice) }, ref, nil, false},
		"nor in another repository's name":              {func(p *Pulls) error { return p.Pulled(id, ref, nil) }, "registry.test/other/app:1", nil, false},
		"a pull that was cut off is no import":          {func(p *Pulls) error { return p.Begin(ref) }, ref, nil, false},
		"a pull that failed changes nothing":            {func(p *Pulls) error { return errorsOf(p.Begin(ref), p.Failed(ref)) }, ref, nil, true},
		"a pull that ended does not count as cut off":   {func(p *Pulls) error { return errorsOf(p.Begin(ref), p.Pulled(id, ref, nil), p.Forget(id)) }, ref, nil, true},
		"a file that nobody can read allows nothing":    {breakFile, ref, []Credential{alice}, false},
		"an image that was removed may be imported now": {func(p *Pulls) error { return errorsOf(p.Pulled(id, ref, &alice), p.Forget(id)) }, ref, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "pulls")
			p, err := OpenPulls(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.before(p); err != nil {
				t.Fatal(err)
			}
			if p, err = OpenPulls(dir); err != nil { // as after a restart
				t.Fatal(err)
			}
			if got := p.MayUse(id, test.ref, test.creds); got != test.want {
				t.Errorf("MayUse(%s, %d credentials) = %v, want %v", test.ref, len(test.creds), got, test.want)
			}
		})
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func breakFile(p *Pulls) error {
	if err := p.Pulled("sha256:1", "registry.test/team/app:1", nil); err != nil {
		return err
	}
	return os.WriteFile(p.image("sha256:1"), []byte("{"), 0o600)
}
