// Package testimage builds images for tests, and for examples on machines that
// reach no registry, from programs that lie on this machine.
package testimage

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is put into an image. Link makes it a symbolic link.
type File struct {
	Path string
	Mode int64
	Data []byte
	Link string
}

// Build makes an image of one layer for this machine.
func Build(files []File, config v1.Config) (v1.Image, error) {
	layerBytes, err := layer(files)
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layerBytes)), nil
	})
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture, cf.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(img, cf)
}

func layer(files []File) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{}
	for _, f := range files {
		if err := parents(w, made, f.Path); err != nil {
			return nil, err
		}
		h := &tar.Header{Name: strings.TrimPrefix(f.Path, "/"), Mode: f.Mode, Size: int64(len(f.Data)), Typeflag: tar.TypeReg}
		if f.Link != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.Link, 0
		}
		if strings.HasSuffix(f.Path, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("build layer: %w", err)
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, fmt.Errorf("build layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("build layer: %w", err)
	}
	return b.Bytes(), nil
}

// parents writes the folders above a path, once each.
func parents(w *tar.Writer, made map[string]bool, p string) error {
	dir := path.Dir(strings.Trim(p, "/"))
	if dir == "." || made[dir] {
		return nil
	}
	if err := parents(w, made, dir); err != nil {
		return err
	}
	made[dir] = true
	return w.WriteHeader(&tar.Header{Name: dir + "/", Mode: 0o755, Typeflag: tar.TypeDir})
}

// Busybox gives an image with a shell and the usual commands, made from the
// busybox of this machine, which must be static (Debian: busybox-static).
func Busybox() (v1.Image, error) {
	const program = "/bin/busybox"
	data, err := os.ReadFile(program)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: run `apt-get install busybox-static`", program)
	}
	if err != nil {
		return nil, err
	}
	list, err := exec.Command(program, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list busybox's commands: %w", err)
	}
	files := []File{
		{Path: "/bin/busybox", Mode: 0o755, Data: data},
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/bin/sh\napp:x:1234:2345:app:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\nstaff:x:50:app\napp:x:2345:\nnobody:x:65534:\n")},
		{Path: "/tmp/", Mode: 0o1777},
	}
	for command := range strings.FieldsSeq(string(list)) {
		if command != "busybox" {
			files = append(files, File{Path: "/bin/" + command, Mode: 0o777, Link: "busybox"})
		}
	}
	return Build(files, v1.Config{Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/bin"}})
}

// Archive gives an image as `docker save` would, under a name with a tag.
func Archive(ref string, img v1.Image) (io.Reader, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	var b bytes.Buffer
	if err := tarball.Write(tag, img, &b); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &b, nil
}
