package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// otherGroup is one that files are not of at first, where the test may give them away.
func otherGroup() int64 {
	if os.Geteuid() == 0 {
		return 4242
	}
	return int64(os.Getgid())
}

// lay makes files and folders (with a slash at their end) of the given modes.
func lay(t *testing.T, dir string, entries map[string]fs.FileMode) {
	t.Helper()
	paths := make([]string, 0, len(entries))
	for path := range entries {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		full := filepath.Join(dir, path)
		var err error
		if path[len(path)-1] == '/' {
			err = os.MkdirAll(full, 0o700)
		} else {
			err = os.WriteFile(full, nil, 0o600)
		}
		if err := errors.Join(err, os.Chmod(full, entries[path])); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFSGroupOwnsAllThatLiesInAVolume(t *testing.T) {
	t.Parallel()
	dir, group := t.TempDir(), otherGroup()
	before := map[string]fs.FileMode{
		"./": 0o755, "file": 0o600, "run": 0o755, "suid": fs.ModeSetuid | 0o755, "a/": 0o700, "a/b/": 0o700 | fs.ModeSticky, "a/b/deep": 0o400, "empty/": 0o500,
	}
	lay(t, dir, before)
	if err := ownByGroup(dir, &group, v1.FSGroupChangeAlways); err != nil {
		t.Fatal(err)
	}
	const folder = fs.ModeDir | fs.ModeSetgid
	want := map[string]fs.FileMode{
		"./": folder | 0o775, "file": 0o660, "run": 0o775, "suid": fs.ModeSetuid | 0o775, "a/": folder | 0o770, "a/b/": folder | fs.ModeSticky | 0o770,
		"a/b/deep": 0o660, "empty/": folder | 0o770,
	}
	got := map[string]fs.FileMode{}
	for path := range before {
		info, err := os.Lstat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		got[path] = info.Mode()
		if gid := groupOf(t, filepath.Join(dir, path)); gid != group {
			t.Errorf("%s is of group %d, want %d", path, gid, group)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("modes (-want +got):\n%s", d)
	}
}

// A pod can leave links in its volume that lead out of it.
func TestFSGroupLeavesAVolumeByNoLink(t *testing.T) {
	t.Parallel()
	outside, dir, group := t.TempDir(), t.TempDir(), otherGroup()
	lay(t, outside, map[string]fs.FileMode{"./": 0o700, "secret": 0o600, "folder/": 0o700, "folder/secret": 0o600})
	lay(t, dir, map[string]fs.FileMode{"a/": 0o700})
	links := map[string]string{
		"file": filepath.Join(outside, "secret"), "a/folder": filepath.Join(outside, "folder"), "gone": filepath.Join(outside, "gone"), "up": "../..",
		"relative": "../" + filepath.Base(outside),
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	was := groupOf(t, outside)
	if err := ownByGroup(dir, &group, v1.FSGroupChangeAlways); err != nil {
		t.Fatal(err)
	}
	for name := range links {
		if gid := groupOf(t, filepath.Join(dir, name)); gid != group {
			t.Errorf("the link %s is of group %d, want %d", name, gid, group)
		}
	}
	for path, mode := range map[string]fs.FileMode{".": fs.ModeDir | 0o700, "secret": 0o600, "folder": fs.ModeDir | 0o700, "folder/secret": 0o600} {
		path = filepath.Join(outside, path)
		if got := modeOf(t, path); got != mode || groupOf(t, path) != was {
			t.Errorf("%s outside has mode %v and group %d, want %v and %d as before", path, got, groupOf(t, path), mode, was)
		}
	}
}

// The folder of a volume says by itself whether all within is the group's: it does so
// by all of its bits, and only when that is done.
func TestFSGroupOnARootMismatch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		root  fs.FileMode
		other bool // it is of another group
		left  bool
	}{
		"all as it is given":         {fs.ModeSetgid | 0o770, false, true},
		"more than that":             {fs.ModeSetgid | 0o777, false, true},
		"of another group":           {fs.ModeSetgid | 0o770, true, false},
		"without setgid":             {0o770, false, false},
		"the group may not enter it": {fs.ModeSetgid | 0o760, false, false},
		"the group may not write":    {fs.ModeSetgid | 0o750, false, false},
		"its owner may not write":    {fs.ModeSetgid | 0o570, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, group := t.TempDir(), otherGroup()
			if test.other && os.Geteuid() != 0 {
				t.Skip("to give a folder to another group needs root")
			}
			lay(t, dir, map[string]fs.FileMode{"file": 0o600})
			if !test.other {
				if err := os.Chown(dir, -1, int(group)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(dir, test.root); err != nil {
				t.Fatal(err)
			}
			if err := ownByGroup(dir, &group, v1.FSGroupChangeOnRootMismatch); err != nil {
				t.Fatal(err)
			}
			if left := modeOf(t, filepath.Join(dir, "file")) == 0o600; left != test.left {
				t.Errorf("what lies within was left: %v, want %v", left, test.left)
			}
		})
	}
}

func TestAFolderIsTheGroupsAfterAllWithin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lay(t, dir, map[string]fs.FileMode{"a/": 0o700, "a/b/": 0o700, "a/b/c": 0o600, "a/d": 0o600})
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var seen []string
	broken := errors.New("broken")
	visit := func(failing string) error {
		seen = nil
		return walkUp(root, ".", func(path string, _ fs.FileInfo) error {
			seen = append(seen, path)
			if path == failing {
				return broken
			}
			return nil
		})
	}
	if err := visit(""); err != nil || !slices.Equal(seen, []string{"a/b/c", "a/b", "a/d", "a", "."}) {
		t.Errorf("walked %v, %v", seen, err)
	}
	if err := visit("a/b"); !errors.Is(err, broken) || !slices.Equal(seen, []string{"a/b/c", "a/b"}) {
		t.Errorf("walked %v, %v, want to end where it failed", seen, err)
	}
}

func groupOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int64(info.Sys().(*syscall.Stat_t).Gid)
}
