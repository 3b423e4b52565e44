package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// ownFile is the Policy object that `berth policy new` puts beside a source.
const ownFile = "policy.yaml"

// pushed says what a push is of: `push`, `push NAME`, `push DIR` or `push NAME DIR`.
// What the folder's own policy.yaml says holds where no flag says otherwise.
func (f *pushFlags) pushed(args []string) (name, source string, err error) {
	source = "."
	switch {
	case len(args) == 2:
		name, source = args[0], args[1]
	case len(args) == 1 && exists(filepath.Join(args[0], ownFile)):
		source = args[0]
	case len(args) == 1 && exists(args[0]) && (strings.Contains(args[0], "/") || build.Sources(source) != nil):
		return "", "", fmt.Errorf("%s has no %s that names a policy: use `berth policy push NAME %[1]s`", args[0], ownFile)
	case len(args) == 1 && strings.Contains(args[0], "/"):
		return "", "", fmt.Errorf("%s is neither a file nor a folder: name the folder that holds the policy", args[0])
	case len(args) == 1:
		name = args[0]
	}
	own, err := readOwn(source)
	if err != nil {
		return "", "", err
	}
	if own == nil && name == "" {
		return "", "", fmt.Errorf("%s has no %s that names a policy: use `berth policy push NAME DIR`", folderName(source), ownFile)
	}
	if own != nil {
		f.adopt(own)
		if name == "" {
			name = own.Name
		}
	}
	return name, source, nil
}

// readOwn reads the Policy of a folder, nil if it has none.
func readOwn(dir string) (*v1alpha1.Policy, error) {
	data, err := os.ReadFile(filepath.Join(dir, ownFile))
	if errors.Is(err, fs.ErrNotExist) || err != nil && !isFolder(dir) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := new(v1alpha1.Policy)
	if err := yaml.UnmarshalStrict(data, p); err != nil {
		return nil, fmt.Errorf("%s: %s", filepath.Join(dir, ownFile), plainly(err))
	}
	if p.Name == "" {
		return nil, fmt.Errorf("%s has no metadata.name", filepath.Join(dir, ownFile))
	}
	return p, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (f *pushFlags) adopt(own *v1alpha1.Policy) {
	f.own = own.Spec
	if f.entry == "" {
		f.entry = own.Spec.Entry
	}
	if f.mode == "" {
		f.mode = string(own.Spec.Mode)
	}
}

// plainly leaves out of an error which of two notations could not be read.
func plainly(err error) string {
	text := err.Error()
	for _, layer := range []string{"error unmarshaling JSON: ", "while decoding JSON: ", "json: ", "error converting YAML to JSON: ", "yaml: "} {
		text = strings.TrimPrefix(text, layer)
	}
	return text
}
