// Command image writes an image archive that holds one static program, for
// machines without a registry.
//
//	image -program BINARY -name berth.local/web:1 -o web.tar
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	program := flag.String("program", "", "static binary that the image runs")
	ref := flag.String("name", "", "name of the image")
	out := flag.String("o", "", "archive to write")
	flag.Parse()
	if err := run(*program, *ref, *out); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(program, ref, out string) error {
	if program == "" || ref == "" || out == "" {
		return fmt.Errorf("-program, -name and -o are all needed")
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	entry := "/" + filepath.Base(program)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return archive(entry, content) })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{Entrypoint: []string{entry}, User: "65532:65532"}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return err
	}
	return tarball.WriteToFile(out, tag, image)
}

func archive(path string, content []byte) (io.ReadCloser, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: path[1:], Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	return io.NopCloser(&buf), w.Close()
}
