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
	if name, source, err = nameAndSource(args); err != nil {
		return "", "", err
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

// nameAndSource tells a name from a folder; the name is empty if there is none.
func nameAndSource(args []string) (name, source string, err error) {
	const here = "."
	switch len(args) {
	case 0:
		return "", here, nil
	case 2:
		return args[0], args[1], nil
	}
	one, folder := args[0], strings.Contains(args[0], "/")
	switch {
	case exists(filepath.Join(one, ownFile)):
		return "", one, nil
	case exists(one) && (folder || build.Sources(here) != nil):
		return "", "", fmt.Errorf("%s has no %s that names a policy: use `berth policy push NAME %[1]s`", one, ownFile)
	case folder:
		return "", "", fmt.Errorf("%s is neither a file nor a folder: name the folder that holds the policy", one)
	}
	return one, here, nil
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
