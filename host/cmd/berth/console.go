package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/console"
)

func newConsole() *cobra.Command {
	var write, open bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Print an address at which a browser is signed in at the console",
		Long: "Print an address at which a browser is signed in, once and within a minute, as the user of this\n" +
			"kubeconfig. The certificate stays here; the session holds for eight hours, and sees what its user\n" +
			"may see. A browser asks whether it should trust the host's certificate, which is its own\n" +
			"authority's.",
		Example: "  berth console\n  berth console --write    # policies may be pushed there",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := clientFor(cmd)
			if err != nil {
				return err
			}
			var answer struct{ Path string }
			path := console.CodesPath + "?write=" + strconv.FormatBool(write)
			if err := c.send(cmd.Context(), "POST", path, "application/json", nil, &answer); err != nil {
				return err
			}
			address := strings.TrimSuffix(c.server(), "/") + answer.Path
			fmt.Fprintln(cmd.OutOrStdout(), address)
			if !open {
				return nil
			}
			if err := exec.CommandContext(cmd.Context(), "xdg-open", address).Run(); err != nil {
				return fmt.Errorf("open a browser: %w; open the address above yourself", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "let the session change what its user may change")
	cmd.Flags().BoolVar(&open, "open", false, "open the address by xdg-open")
	return cmd
}

// server is where the cluster's API is.
func (c *client) server() string {
	at := c.rest.Get().URL()
	return at.Scheme + "://" + at.Host
}
