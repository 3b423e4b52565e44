package static

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// maxManifest bounds a file: what is larger is no manifest.
const maxManifest = 1 << 20

// folder is the manifests that lie in a folder, each read again when it has changed.
type folder struct {
	dir, node string
	files     map[string]file
}

// file is a manifest as it was read.
type file struct {
	size     int64
	modified time.Time
	pod      *v1.Pod // nil: it is faulty
}

// read looks at the folder again. Faults are told of files that are new or have
// changed. A file that is faulty now is no pod, as one that is gone.
func (f *folder) read() (pods []*v1.Pod, faults []error) {
	if f.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.pods(), []error{err} // what was there is believed to be there still
	}
	if err != nil {
		f.files = nil
		return nil, []error{err}
	}
	now := map[string]file{}
	for _, e := range entries {
		if e.IsDir() || !isManifest(e.Name()) {
			continue
		}
		one, fault := f.look(e.Name())
		now[e.Name()] = one
		if fault != nil {
			faults = append(faults, fmt.Errorf("%s: %w", filepath.Join(f.dir, e.Name()), fault))
		}
	}
	f.files = now
	return f.pods(), faults
}

// isManifest: files that begin with a dot are editors'.
func isManifest(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// look reads a file, unless it is as it was. One that is there and cannot be read is
// believed to have the pod that it had.
func (f *folder) look(name string) (one file, fault error) {
	path, was := filepath.Join(f.dir, name), f.files[name]
	info, err := os.Stat(path)
	if err == nil {
		if was.size == info.Size() && was.modified.Equal(info.ModTime()) {
			return was, nil
		}
		one = file{size: info.Size(), modified: info.ModTime()}
		one.pod, err = load(path, info, f.node)
	}
	if errors.As(err, new(*fs.PathError)) && !errors.Is(err, fs.ErrNotExist) {
		return file{pod: was.pod}, err
	}
	return one, err
}

func load(path string, info os.FileInfo, node string) (*v1.Pod, error) {
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("it has more than %d bytes", maxManifest)
	}
	return Parse(data, node)
}

// pods are those of the files, by the files' names; of two with one name the first
// counts.
func (f *folder) pods() (pods []*v1.Pod) {
	names := make([]string, 0, len(f.files))
	for name := range f.files {
		names = append(names, name)
	}
	slices.Sort(names)
	taken := map[string]bool{}
	for _, name := range names {
		if p := f.files[name].pod; p != nil && !taken[keyOf(p)] {
			taken[keyOf(p)] = true
			pods = append(pods, p)
		}
	}
	return pods
}

func keyOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }
