package scaffold

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-dev/berth"
)

//go:embed flatbuffers
var flatbuffers embed.FS

const (
	module = "github.com/berth-dev/berth"
	flat   = "github.com/google/flatbuffers"
	// sdkVersion stands in for a release: what counts is what is vendored.
	sdkVersion = "v0.0.0-vendored"
)

// versions are what the sources were written for.
type versions struct{ language, flatbuffers string }

var (
	goLine   = regexp.MustCompile(`(?m)^go (\S+)$`)
	flatLine = regexp.MustCompile(`(?m)^\s*` + flat + ` (\S+)$`)
)

func versionsOf() (versions, error) {
	mod, err := berth.Guest.ReadFile("go.mod")
	if err != nil {
		return versions{}, err
	}
	language, used := goLine.FindSubmatch(mod), flatLine.FindSubmatch(mod)
	if language == nil || used == nil {
		return versions{}, fmt.Errorf("go.mod does not name Go and %s", flat)
	}
	return versions{string(language[1]), string(used[1])}, nil
}

// vendored returns the SDK and what it needs as a vendor folder.
func (v versions) vendored() map[string][]byte {
	files := map[string][]byte{"vendor/modules.txt": []byte(v.list())}
	each(berth.Guest, func(name string, data []byte) {
		if name != "go.mod" && !strings.HasSuffix(name, "_test.go") {
			files["vendor/"+module+"/"+name] = data
		}
	})
	each(flatbuffers, func(name string, data []byte) {
		base := strings.TrimSuffix(path.Base(name), ".txt")
		if base == "LICENSE" {
			files["vendor/"+flat+"/"+base] = data
			return
		}
		files["vendor/"+flat+"/go/"+base] = data
	})
	return files
}

// list is modules.txt, which the go command compares with go.mod.
func (v versions) list() string {
	return fmt.Sprintf("# %s %s\n## explicit; go %s\n", module, sdkVersion, v.language) +
		packages() +
		fmt.Sprintf("# %s %s\n## explicit\n%s/go\n", flat, v.flatbuffers, flat)
}

// packages are the folders of the SDK and the contract, one a line.
func packages() string {
	var list []string
	each(berth.Guest, func(name string, _ []byte) {
		if folder := path.Dir(name); folder != "." && !slices.Contains(list, folder) {
			list = append(list, folder)
		}
	})
	slices.Sort(list)
	var out strings.Builder
	for _, folder := range list {
		out.WriteString(module + "/" + folder + "\n")
	}
	return out.String()
}

// each walks files that are part of this binary: they can always be read.
func each(files embed.FS, do func(name string, data []byte)) {
	_ = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err == nil {
			do(name, data)
		}
		return err
	})
}
