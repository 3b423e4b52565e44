package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/policy/build"
)

// source says how to get a module's bytes of a folder or a file.
type source struct{ stock, debug bool }

func (s *source) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.stock, "go", false, "build by stock Go even if there is TinyGo")
	cmd.Flags().BoolVar(&s.debug, "debug", false, "keep debug information, so that traps show source lines")
}

// module builds the folder at path, or reads the file.
func (s *source) module(ctx context.Context, out io.Writer, path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.ReadFile(path)
	}
	find := build.Find
	if s.stock {
		find = build.Stock
	}
	tool, err := find()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "building %s with %s\n", path, tool.Name)
	return tool.Module(ctx, path, s.debug)
}

func newPolicyBuild() *cobra.Command {
	var from source
	var out string
	cmd := &cobra.Command{
		Use:     "build DIR",
		Short:   "Build a policy as wasm, by TinyGo if there is one, else by Go",
		Example: "  berth policy build ./examples/gpu-only -o gpu-only.wasm",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wasm, err := from.module(cmd.Context(), cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			if out == "" {
				if out, err = wasmName(args[0]); err != nil {
					return err
				}
			}
			if err := os.WriteFile(out, wasm, 0o644); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d KB\n", out, kilobytes(len(wasm)))
			return nil
		},
	}
	from.addFlags(cmd)
	cmd.Flags().StringVarP(&out, "output", "o", "", "the file to write; by default the folder's name with .wasm, here")
	return cmd
}

// wasmName is what a folder's module is called.
func wasmName(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	return filepath.Base(abs) + ".wasm", err
}

func kilobytes(n int) int { return (n + 1023) / 1024 }
