package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
)

// source says how to get a module's bytes of a folder or a file.
type source struct{ stock, debug, strip bool }

func (s *source) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.stock, "go", false, "build by stock Go even if there is TinyGo")
	cmd.Flags().BoolVar(&s.debug, "debug", false, "keep debug information, so that traps show source lines, however large it is")
	cmd.Flags().BoolVar(&s.strip, "strip", false, "leave debug information out; by default it stays if the module has 2 MiB at most with it")
}

// check refuses flags that do not go together.
func (s *source) check() error {
	if s.debug && s.strip {
		return errors.New("--debug keeps debug information, and --strip leaves it out: use one of them")
	}
	return nil
}

// checkBuilt refuses flags of a build where there is none to make.
func (s *source) checkBuilt(file string) error {
	if s.stock || s.debug || s.strip {
		return fmt.Errorf("--go, --debug and --strip say how a folder is built, and %s is a module already: leave them out", file)
	}
	return nil
}

// module builds the folder at path, or reads the file.
func (s *source) module(ctx context.Context, out io.Writer, path string) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is neither a file nor a folder: name a module (.wasm), or the folder that holds the policy", path)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if err := s.checkBuilt(path); err != nil {
			return nil, err
		}
		return readModule(path)
	}
	if err := build.Sources(path); err != nil {
		return nil, err
	}
	return s.build(ctx, out, path)
}

// build compiles the folder, and tells how long it took.
func (s *source) build(ctx context.Context, out io.Writer, path string) ([]byte, error) {
	find := build.Find
	if s.stock {
		find = build.Stock
	}
	tool, err := find()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	fmt.Fprintf(out, "building %s with %s", folderName(path), tool.Name)
	if tool.Name == "go" && !s.stock {
		fmt.Fprint(out, " (TinyGo would make it far smaller: https://tinygo.org)")
	}
	built, err := tool.Build(ctx, path, !s.strip)
	if err == nil && !s.strip && !s.debug && tool.Name == "tinygo" && len(built.Wasm) > maxWithDebug {
		fmt.Fprintf(out, ", again without debug information, which makes %d KB", kilobytes(len(built.Wasm)))
		built, err = tool.Build(ctx, path, false)
	}
	switch {
	case err != nil:
		fmt.Fprintln(out)
	case built.Again:
		fmt.Fprintf(out, ": unchanged since it was built, %d KB\n", kilobytes(len(built.Wasm)))
	default:
		fmt.Fprintf(out, ": %d KB in %.1fs\n", kilobytes(len(built.Wasm)), time.Since(began).Seconds())
	}
	return built.Wasm, err
}

// readModule reads a file that begins as modules do.
func readModule(path string) ([]byte, error) {
	most := vet.DefaultLimits().Bytes
	info, err := os.Stat(path)
	if err == nil && info.Size() > int64(most) {
		return nil, fmt.Errorf("%s has %d KB, and a host takes modules of %d KB at most: leave out debug information or data", path, kilobytes(int(info.Size())), kilobytes(most))
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file: name a module (.wasm), or the folder that holds the policy", path)
	}
	wasm, err := os.ReadFile(path)
	if err == nil && !bytes.HasPrefix(wasm, []byte("\x00asm")) {
		err = fmt.Errorf("%s is no WebAssembly module: name one (.wasm), or the folder that holds the policy", path)
	}
	return wasm, err
}

// maxWithDebug is how large a module may be with the debug information that
// is kept where nothing else is said. Go's modules hold names of functions, and
// are large anyway.
const maxWithDebug = 2 << 20

// folderName is what people call a folder that they may be in.
func folderName(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return filepath.Base(abs)
	}
	return path
}

func newPolicyBuild() *cobra.Command {
	var from source
	var out string
	var asYAML bool
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build a policy as wasm, by TinyGo if there is one, else by Go",
		Long: "Builds the policy in DIR and writes the module. With --yaml it prints the Module, with the bytes\n" +
			"in it, and the Policy of DIR's policy.yaml, as kubectl takes them. A new predicate or priority\n" +
			"takes part once a Profile names it.",
		Example: "  berth policy build ./examples/gpu-only -o gpu-only.wasm\n" +
			"  berth policy build --yaml | kubectl apply --server-side -f -",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := first(args, ".")
			if info, err := os.Stat(dir); err == nil && !info.IsDir() {
				return fmt.Errorf("%s is a file: name the folder that holds the policy; `berth policy inspect` shows what a module is", dir)
			}
			wasm, err := from.module(cmd.Context(), cmd.ErrOrStderr(), dir)
			if err != nil {
				return err
			}
			if asYAML && len(wasm) > maxInline && !from.strip && !from.debug {
				from.strip = true
				if wasm, err = from.module(cmd.Context(), cmd.ErrOrStderr(), dir); err != nil {
					return err
				}
			}
			if asYAML {
				return writeYAML(cmd.OutOrStdout(), out, dir, wasm)
			}
			if out == "" {
				out = folderName(dir) + ".wasm"
			}
			if err := os.WriteFile(out, wasm, 0o644); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d KB\n", out, kilobytes(len(wasm)))
			return nil
		},
	}
	from.addFlags(cmd)
	cmd.Flags().BoolVar(&asYAML, "yaml", false, "print Module and Policy for kubectl apply --server-side instead")
	cmd.Flags().StringVarP(&out, "output", "o", "", "the file to write; by default the folder's name with .wasm here, and the screen for --yaml")
	return cmd
}

// writeYAML prints the objects, or writes them into a file.
func writeYAML(to io.Writer, file, dir string, wasm []byte) error {
	if file == "" {
		return writeObjects(to, dir, wasm)
	}
	var objects bytes.Buffer
	if err := writeObjects(&objects, dir, wasm); err != nil {
		return err
	}
	return os.WriteFile(file, objects.Bytes(), 0o644)
}

// maxInline is what an object can hold: an API's request has 3 MiB, in base64.
const maxInline = 3<<20/4*3 - 16<<10

// writeObjects prints what kubectl needs to make the policy of dir live.
func writeObjects(out io.Writer, dir string, wasm []byte) error {
	p, err := readOwn(dir)
	if err != nil {
		return err
	}
	if p == nil {
		return fmt.Errorf("%s has no %s that names a policy", folderName(dir), ownFile)
	}
	if len(wasm) > maxInline {
		return fmt.Errorf("the module has %d KB, and an object holds %d KB at most: build it by TinyGo, without --debug, or upload it by `berth policy push`", kilobytes(len(wasm)), kilobytes(maxInline))
	}
	digest := sha256.Sum256(wasm)
	group := v1alpha1.GroupVersion.String()
	m := v1alpha1.Module{TypeMeta: metav1.TypeMeta{APIVersion: group, Kind: "Module"}, Spec: v1alpha1.ModuleSpec{Wasm: wasm}}
	m.Name = "sha256-" + hex.EncodeToString(digest[:])
	p.APIVersion, p.Kind, p.Spec.Module = group, "Policy", m.Name
	for _, o := range []any{&m, p} {
		text, err := manifest(o)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// manifest is an object without what only a host writes into it.
func manifest(o any) ([]byte, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	return yaml.Marshal(fields)
}

// first is the first argument, or else what is taken where there is none.
func first(args []string, otherwise string) string {
	if len(args) > 0 {
		return args[0]
	}
	return otherwise
}

func kilobytes(n int) int { return (n + 1023) / 1024 }
