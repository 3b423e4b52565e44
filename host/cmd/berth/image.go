package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/machine"
)

func newImage() *cobra.Command {
	cmd := &cobra.Command{Use: "image", Short: "Look after this machine's images"}
	cmd.AddCommand(newImageImport())
	return cmd
}

func newImageImport() *cobra.Command {
	var dataDir, address string
	cmd := &cobra.Command{
		Use:   "import FILE.tar",
		Short: "Import an image archive on this machine",
		Long:  "Imports an image archive on this machine, as `docker save` or an OCI tool writes it.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			images, closeImages, err := machine.Images(cmd.Context(), filepath.Join(dataDir, "agent"), address)
			if err != nil {
				return err
			}
			defer func() { _ = closeImages() }()
			found, err := importFile(cmd.Context(), images, args[0])
			if err != nil {
				return err
			}
			for _, one := range found {
				for _, name := range one.Names {
					fmt.Fprintf(cmd.OutOrStdout(), "imported %s\n", name)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", defaultDataDir(), "where the agent keeps its state")
	cmd.Flags().StringVar(&address, "containerd-address", "", "socket of containerd; by default that of Berth's own")
	return cmd
}

// importer takes image archives.
type importer interface {
	Import(ctx context.Context, archive io.Reader) ([]image.Image, error)
}

func importFile(ctx context.Context, images importer, file string) ([]image.Image, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found, err := images.Import(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", file, err)
	}
	return found, nil
}
