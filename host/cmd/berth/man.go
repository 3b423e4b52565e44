package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages of all commands into a folder",
		Long:    "Writes a page a command (section 1), as `man` shows them where DIR is man1 of a folder of $MANPATH.",
		Example: "  berth man ~/.local/share/man/man1 && man berth-policy-push",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // pages are for all to read
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Title: "BERTH", Section: "1", Source: "Berth " + version}, args[0])
		},
	}
}
