package build

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What is kept of earlier builds, and how large a source may be to be looked
// through for changes.
const (
	maxKept        = 32
	maxSourceFiles = 5000
	maxSourceBytes = 64 << 20
)

// outside finds what a module takes from elsewhere on this machine, which its
// own folder does not show.
var outside = regexp.MustCompile(`(?m)=>\s*(\.|/)`)

var errNotKept = errors.New("the source cannot be told by its module's folder alone")

// fingerprint is the same as long as a build would give the same module: over
// the compiler, how it is called, and the sources of the Go module around dir,
// and what they embed.
func (t Toolchain) fingerprint(dir string, debug bool) (string, error) {
	compiler, err := os.Stat(t.Path)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	root, err := moduleRoot(dir)
	if err != nil {
		return "", err
	}
	if inWorkspace(root) {
		return "", errNotKept
	}
	h := sha256.New()
	within, _ := filepath.Rel(root, dir)
	fmt.Fprintf(h, "%s %s %d %v %v %s %s\n", t.Name, t.Path, compiler.Size(), compiler.ModTime(), t.args("", debug), within, os.Getenv("GOFLAGS"))
	sum := &sum{Hash: h, root: root, dir: dir}
	if err := sum.sources(); err != nil {
		return "", err
	}
	if err := sum.embedded(); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// inWorkspace says whether other modules of this machine may be built with the
// one in root.
func inWorkspace(root string) bool {
	if set := os.Getenv("GOWORK"); set != "" {
		return set != "off"
	}
	for at := root; ; at = filepath.Dir(at) {
		if exists(filepath.Join(at, "go.work")) {
			return true
		}
		if filepath.Dir(at) == at {
			return false
		}
	}
}

// sum is one over files of a Go module.
type sum struct {
	hash.Hash
	root, dir string
	files     int
	size      int64
	patterns  []string // of what sources embed
}

// sources adds what a compiler reads by itself.
func (s *sum) sources() error {
	return filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && !holds(path, s.dir) && elsewhere(path, d.Name()) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || !source(d.Name()) {
			return nil
		}
		data, err := s.add(path)
		if err != nil {
			return err
		}
		if d.Name() == "go.mod" && outside.Match(data) {
			return errNotKept
		}
		if filepath.Ext(path) == ".go" {
			s.patterns = append(s.patterns, embeds(filepath.Dir(path), data)...)
		}
		return nil
	})
}

// embedded adds what the sources embed.
func (s *sum) embedded() error {
	for _, pattern := range s.patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, top := range found {
			err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					_, err = s.add(path)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sum) add(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s.files, s.size = s.files+1, s.size+int64(len(data))
	if s.files > maxSourceFiles || s.size > maxSourceBytes {
		return nil, errNotKept
	}
	name, _ := filepath.Rel(s.root, path)
	fmt.Fprintf(s, "%s %d\n", name, len(data))
	_, _ = s.Write(data)
	return data, nil
}

// embeds are the patterns that a source in dir embeds.
func embeds(dir string, source []byte) (patterns []string) {
	for line := range bytes.Lines(source) {
		list, ok := strings.CutPrefix(string(line), "//go:embed")
		if !ok || strings.TrimLeft(list, " \t") == list {
			continue
		}
		for list = strings.TrimSpace(list); list != ""; list = strings.TrimSpace(list) {
			var pattern string
			pattern, list = firstPattern(list)
			patterns = append(patterns, filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(pattern, "all:"))))
		}
	}
	return patterns
}

// firstPattern takes the first pattern off a list, which may be quoted.
func firstPattern(list string) (pattern, rest string) {
	if quoted, err := strconv.QuotedPrefix(list); err == nil {
		pattern, _ = strconv.Unquote(quoted)
		return pattern, list[len(quoted):]
	}
	if end := strings.IndexAny(list, " \t"); end >= 0 {
		return list[:end], list[end:]
	}
	return list, ""
}

// holds says whether a folder is dir or lies above it.
func holds(folder, dir string) bool {
	return folder == dir || strings.HasPrefix(dir, strings.TrimSuffix(folder, "/")+"/")
}

// elsewhere says whether a folder is none of the module around it.
func elsewhere(path, name string) bool {
	return strings.HasPrefix(name, ".") || name == "testdata" || exists(filepath.Join(path, "go.mod"))
}

// source says whether a compiler reads a file of that name by itself.
func source(name string) bool {
	if strings.HasSuffix(name, "_test.go") {
		return false
	}
	switch filepath.Ext(name) {
	case ".go", ".s", ".S", ".c", ".h", ".cc", ".cpp", ".mod", ".sum":
		return true
	}
	return name == "modules.txt"
}

// Sources says what a folder lacks that a policy is built from.
func Sources(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if _, err := moduleRoot(dir); err != nil {
		return err
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.go")); err != nil || len(files) == 0 {
		return fmt.Errorf("%s holds no Go source: name the folder that holds the policy", dir)
	}
	return nil
}

// moduleRoot is the folder of the go.mod that dir belongs to.
func moduleRoot(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if exists(filepath.Join(at, "go.mod")) {
			return at, nil
		}
		if filepath.Dir(at) == at {
			return "", fmt.Errorf("%s belongs to no Go module: `berth policy new` makes a folder that does", dir)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// keptIn is where modules are kept; it belongs to this user alone.
func keptIn() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "berth", "built")
	return dir, os.MkdirAll(dir, 0o700)
}

// kept returns the module of an earlier build of the same source, nil if there
// is none.
func kept(fingerprint string) []byte {
	dir, err := keptIn()
	if err != nil {
		return nil
	}
	wasm, err := os.ReadFile(filepath.Join(dir, fingerprint+".wasm"))
	if err != nil || !bytes.HasPrefix(wasm, []byte("\x00asm")) {
		return nil
	}
	return wasm
}

// keep puts a module beside the newest others. Nothing depends on it.
func keep(fingerprint string, wasm []byte) {
	dir, err := keptIn()
	if err != nil {
		return
	}
	tmp, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return
	}
	_, err = tmp.Write(wasm)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, fingerprint+".wasm"))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return
	}
	forgetOldest(dir)
}

func forgetOldest(dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if err != nil || len(files) <= maxKept {
		return
	}
	age := map[string]int64{}
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			age[f] = info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(files, func(a, b string) int { return int(min(max(age[a]-age[b], -1), 1)) })
	for _, f := range files[:len(files)-maxKept] {
		_ = os.Remove(f)
	}
}
