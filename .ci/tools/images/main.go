// Command images writes archives of the images that Kubernetes' end-to-end suite
// asks for, made of programs of this machine: no registry is needed.
//
//	images -agnhost FILE -nnp FILE -porter DIRECTORY -busybox FILE -programs NAME,… -out DIRECTORY
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// file is one of an image: a directory if it ends in a slash, a link if it leads
// somewhere.
type file struct {
	path, to string
	content  []byte
	mode     int64
}

type image struct {
	name   string
	files  []file
	config v1.Config
}

const registry = "registry.k8s.io/"

func main() {
	agnhost := flag.String("agnhost", "", "static build of k8s.io/kubernetes/test/images/agnhost")
	nnp := flag.String("nnp", "", "static build of k8s.io/kubernetes/test/images/nonewprivs")
	porter := flag.String("porter", "", "directory porter of agnhost's sources, with a certificate that some specs fetch")
	busybox := flag.String("busybox", "", "static busybox")
	programs := flag.String("programs", "", "programs of this machine that agnhost's image has, too, with their libraries")
	out := flag.String("out", "", "directory for the archives")
	flag.Parse()
	if err := run(*agnhost, *nnp, *porter, *busybox, strings.FieldsFunc(*programs, func(r rune) bool { return r == ',' }), *out); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(agnhost, nnp, porter, busybox string, programs []string, out string) error {
	host, err := os.ReadFile(agnhost)
	if err != nil {
		return err
	}
	privileges, err := os.ReadFile(nnp)
	if err != nil {
		return err
	}
	shell, err := shell(busybox)
	if err != nil {
		return err
	}
	// Debian's busybox has an older shell, which passes variables on by the names that
	// it may give itself alone, and runs its own commands before programs.
	bash, err := withLibraries([]string{"bash"})
	if err != nil {
		return err
	}
	shell = slices.DeleteFunc(shell, func(f file) bool { return f.path == "bin/sh" })
	shell = append(append(shell, bash...), file{path: "bin/sh", to: "/usr/bin/bash"})
	path := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"}
	web := append([]file{
		{path: "usr/share/nginx/html/index.html", content: []byte("<h1>Welcome to nginx!</h1>\n"), mode: 0o644},
		{path: "usr/share/nginx/html/data.json", content: []byte(`{"image": "nautilus.jpg"}`), mode: 0o644},
		{path: "usr/local/apache2/htdocs/index.html", content: []byte("<h1>It works!</h1>\n"), mode: 0o644},
	}, shell...)
	server := v1.Config{Entrypoint: []string{"/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/usr/share/nginx/html"}, Env: path}
	tool := append([]file{{path: "agnhost", content: host, mode: 0o755}, {path: "agnhost-2", to: "/agnhost"}, {path: "uploads/", mode: 0o755}}, shell...)
	for _, name := range []string{"localhost.crt", "localhost.key"} {
		content, err := os.ReadFile(filepath.Join(porter, name))
		if err != nil {
			return err
		}
		tool = append(tool, file{path: name, content: content, mode: 0o644})
	}
	linked, err := withLibraries(programs)
	if err != nil {
		return err
	}
	// Theirs take the place of busybox' commands of the same name.
	taken := func(f file) bool {
		return f.to == "/bin/busybox" && slices.Contains(programs, filepath.Base(f.path))
	}
	tool = append(slices.DeleteFunc(tool, taken), linked...)
	pause := v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, Env: path}
	names := append(slices.DeleteFunc(slices.Clone(shell), taken), linked...)
	for _, i := range []image{
		{"e2e-test-images/agnhost:2.63.0", tool, pause},
		{"e2e-test-images/agnhost:2.55", tool, pause},
		{"e2e-test-images/glibc-dns-testing:2.0.0", names, v1.Config{Cmd: []string{"sh"}, Env: path}},
		{"e2e-test-images/nautilus:1.8", web, server},
		{"pause:3.10.2", []file{{path: "agnhost", content: host, mode: 0o755}}, v1.Config{Entrypoint: []string{"/agnhost", "pause"}}},
		{"e2e-test-images/busybox:1.37.0-1", shell, v1.Config{Cmd: []string{"sh"}, Env: path}},
		{"e2e-test-images/busybox:1.36.1-1", shell, v1.Config{Cmd: []string{"sh"}, Env: path}},
		{"e2e-test-images/nonewprivs:1.4", append(slices.Clone(shell), file{path: "usr/local/bin/nnp", content: privileges, mode: 0o6755}), v1.Config{Cmd: []string{"nnp"}, Env: path}},
		{"e2e-test-images/nginx:1.15-4", web, server},
		{"e2e-test-images/nginx:1.27-0", web, server},
	} {
		if err := i.write(out); err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
	}
	return nil
}

// shell is busybox with a link for each of its commands, and what a system has.
func shell(busybox string) ([]file, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	commands, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, err
	}
	files := []file{
		{path: "tmp/", mode: 0o1777}, {path: "root/", mode: 0o700}, {path: "var/", mode: 0o755}, {path: "var/tmp/", mode: 0o1777}, {path: "home/", mode: 0o755},
		{path: "etc/passwd", content: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n"), mode: 0o644},
		{path: "etc/group", content: []byte("root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"), mode: 0o644},
		{path: "bin/busybox", content: program, mode: 0o755},
	}
	for _, c := range strings.Fields(string(commands)) {
		if c != "busybox" {
			files = append(files, file{path: "bin/" + c, to: "/bin/busybox"})
		}
	}
	return files, nil
}

// library is a line of ldd: a name and where it lies, or where it lies alone.
var library = regexp.MustCompile(`(?m)^\s+(?:\S+ => )?(/\S+) \(0x`)

// withLibraries are programs of this machine, and what they are linked to.
func withLibraries(names []string) (files []file, err error) {
	paths := map[string]string{} // in the image, to where it lies here
	for _, name := range names {
		at, err := exec.LookPath(name)
		if err != nil {
			return nil, err
		}
		paths["usr/bin/"+name] = at
		needs, err := exec.Command("ldd", at).Output()
		if err != nil {
			return nil, fmt.Errorf("ldd %s: %w", at, err)
		}
		for _, m := range library.FindAllStringSubmatch(string(needs), -1) {
			paths[strings.TrimPrefix(m[1], "/")] = m[1]
		}
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		content, err := os.ReadFile(paths[path])
		if err != nil {
			return nil, err
		}
		files = append(files, file{path: path, content: content, mode: 0o755})
	}
	return files, nil
}

func (i *image) write(out string) error {
	tag, err := name.NewTag(registry + i.name)
	if err != nil {
		return err
	}
	data, err := archive(i.files)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
	if err != nil {
		return err
	}
	made, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := made.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, i.config
	if made, err = mutate.ConfigFile(made, config); err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(out, strings.NewReplacer("/", "_", ":", "_").Replace(i.name)+".tar"), tag, made)
}

func archive(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		switch {
		case f.to != "":
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.to, 0o777
		case strings.HasSuffix(f.path, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}
