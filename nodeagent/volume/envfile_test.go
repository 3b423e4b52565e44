package volume

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestAVariableComesFromAFile(t *testing.T) {
	t.Parallel()
	p := podWith(volumeOf("v", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	v := New(t.TempDir(), nil, Plain{}, noLabels)
	dir := v.dir(string(p.UID), "v")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"sub/env": "# words\nA='one'\nB='two words'\n", "bad": "A=$(rm)\n", "big": strings.Repeat("#", maxEnvFile+1), "../out": "A='hush'\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../out", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ volume, path, key, want, wrong string }{
		"a word":                     {"v", "sub/env", "A", "one", ""},
		"words":                      {"v", "sub/env", "B", "two words", ""},
		"a key that is not there":    {"v", "sub/env", "C", "", ""},
		"a file that is not there":   {"v", "none", "A", "", "no such file"},
		"a volume of another name":   {"w", "env", "A", "", "cannot find the volume"},
		"a link out of the volume":   {"v", "link", "A", "", "couldn't parse env file"},
		"a path out of the volume":   {"v", "../out", "A", "", "couldn't parse env file"},
		"a pipe that nobody fills":   {"v", "pipe", "A", "", "want a file"},
		"a file of any other form":   {"v", "bad", "A", "", "couldn't parse env file"},
		"a file that is far too big": {"v", "big", "A", "", "want a file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := v.EnvFile(p, test.volume, test.path, test.key)
			if got != test.want || (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("EnvFile = %q, %v, want %q, %q", got, err, test.want, test.wrong)
			}
		})
	}
}
