// Package tool finds the programs that stand beside Berth: containerd, runc,
// the CNI plugins, TinyGo. They are looked for on PATH first and then where
// `./task tools` puts what it builds.
package tool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Dir is where ./task puts programs: bin in $BERTH_TOOLS, or in berth/tools of
// the user's cache folder.
func Dir() string { return filepath.Join(root(), "bin") }

func root() string {
	if dir := os.Getenv("BERTH_TOOLS"); dir != "" {
		return dir
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = "/root"
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "berth", "tools")
}

// places are searched after the folders that are asked for and before Dir.
var places = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// Find gives the path of a program: in one of dirs, on PATH, in the usual
// places, or in Dir. The error is a line that says what to do.
func Find(name string, dirs ...string) (string, error) {
	for _, dir := range dirs {
		if path := filepath.Join(dir, name); executable(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range append(places, Dir()) {
		if path := filepath.Join(dir, name); executable(path) {
			return path, nil
		}
	}
	return "", &MissingError{Names: []string{name}}
}

// FindPlugin gives the path of a CNI plugin. PATH is left out: some plugins'
// names are those of other programs (bridge).
func FindPlugin(name string, dirs ...string) (string, error) {
	for _, dir := range PluginDirs(dirs...) {
		if path := filepath.Join(dir, name); executable(path) {
			return path, nil
		}
	}
	return "", &MissingError{Names: []string{name}}
}

// PluginDirs are where CNI plugins are looked for, in this order.
func PluginDirs(first ...string) []string {
	return slices.Concat(first, []string{"/opt/cni/bin", "/usr/lib/cni", filepath.Join(root(), "cni")})
}

// FindPlugins finds several CNI plugins, by name, and names all that are missing.
func FindPlugins(names []string, dirs ...string) (map[string]string, error) {
	return all(FindPlugin, names, dirs)
}

// FindAll finds several programs, by name, and names all that are missing.
func FindAll(names []string, dirs ...string) (map[string]string, error) {
	return all(Find, names, dirs)
}

func all(find func(string, ...string) (string, error), names, dirs []string) (map[string]string, error) {
	found := make(map[string]string, len(names))
	var missing []string
	for _, name := range names {
		path, err := find(name, dirs...)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		found[name] = path
	}
	if len(missing) > 0 {
		return nil, &MissingError{Names: missing}
	}
	return found, nil
}

// MissingError names programs that are not on this machine.
type MissingError struct{ Names []string }

func (e *MissingError) Error() string {
	var debian []string
	build := "tools"
	for _, name := range e.Names {
		if name == "tinygo" {
			build = "tinygo"
		}
		if pkg := packages[name]; pkg != "" {
			debian = append(debian, pkg)
		}
	}
	hint := "run `./task " + build + "` in Berth's source folder"
	if len(debian) == len(e.Names) {
		hint = "run `apt-get install " + strings.Join(debian, " ") + "`"
	}
	return fmt.Sprintf("%s missing on this machine: %s", strings.Join(e.Names, ", "), hint)
}

// packages of Debian that are new enough to be used.
var packages = map[string]string{"ip": "iproute2"}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
