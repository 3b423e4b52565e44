package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/berth-dev/berth/abi"
)

//go:embed templates
var templates embed.FS

// Kinds are the kinds of policies that there are templates for.
var Kinds = []string{abi.KindPredicate, abi.KindPriority, abi.KindGate, abi.KindController}

// Policy says what to write.
type Policy struct {
	// Name is the Policy object's, such as "gpu-only".
	Name string
	// Kind is one of Kinds.
	Kind string
}

var validName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (p Policy) check() error {
	if !validName.MatchString(p.Name) {
		return fmt.Errorf("name %q: want up to 63 small letters, digits and '-', beginning with a letter and not ending with '-', such as gpu-only", p.Name)
	}
	if !slices.Contains(Kinds, p.Kind) {
		return fmt.Errorf("kind %q: want one of %s", p.Kind, strings.Join(Kinds, ", "))
	}
	return nil
}

// Write makes dir and all in it. A folder that has something in it is left alone.
func Write(dir string, p Policy) error {
	if err := p.check(); err != nil {
		return err
	}
	if err := claim(dir); err != nil {
		return err
	}
	files, err := p.files()
	if err != nil {
		return err
	}
	return writeOrLeave(dir, files)
}

// writeOrLeave writes all files, or leaves no new folder behind: a part of one
// would be in the way of the next try.
func writeOrLeave(dir string, files map[string][]byte) error {
	_, missing := os.Stat(dir)
	err := writeAll(dir, files)
	if err != nil && errors.Is(missing, fs.ErrNotExist) {
		_ = os.RemoveAll(dir)
	}
	return err
}

func writeAll(dir string, files map[string][]byte) error {
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func claim(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, failed := os.Stat(dir); failed == nil && !info.IsDir() {
		return fmt.Errorf("%s is there already, and is no folder: name another", dir)
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: name another folder", dir)
	}
	return err
}

// files returns what to write, by path with slashes.
func (p Policy) files() (map[string][]byte, error) {
	v, err := versionsOf()
	if err != nil {
		return nil, err
	}
	files := v.vendored()
	for name, from := range map[string]string{
		"main.go": p.Kind + ".go", "main_test.go": p.Kind + "_test.go", "policy.yaml": "policy.yaml", "go.mod": "go.mod",
	} {
		if files[name], err = p.fill(from, v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}

func (p Policy) fill(name string, v versions) ([]byte, error) {
	t, err := template.ParseFS(templates, "templates/"+name+".tmpl")
	if err != nil {
		return nil, err
	}
	camel := camelCase(p.Name)
	var out bytes.Buffer
	err = t.Execute(&out, map[string]string{
		"Name": p.Name, "Kind": p.Kind, "Entry": camel, "Type": strings.ToLower(camel[:1]) + camel[1:] + "Policy",
		"Go": v.language, "SDK": sdkVersion, "FlatBuffers": v.flatbuffers,
	})
	if err != nil || !strings.HasSuffix(name, ".go") {
		return out.Bytes(), err
	}
	return format.Source(out.Bytes())
}

// camelCase turns gpu-only into GpuOnly.
func camelCase(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}
