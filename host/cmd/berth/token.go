package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func newToken() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Tokens by which machines join"}
	cmd.AddCommand(newTokenCreate())
	return cmd
}

func newTokenCreate() *cobra.Command {
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token by which a machine joins",
		Long:  "Makes a token for `berth agent --token`; it names the host's authority too.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := clientFor(cmd)
			if err != nil {
				return err
			}
			var answer struct{ Token string }
			path := fmt.Sprintf("/berth/v1/tokens?life=%s", life)
			if err := c.send(cmd.Context(), "POST", path, "application/json", nil, &answer); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), answer.Token)
			return nil
		},
	}
	cmd.Flags().DurationVar(&life, "life", 24*time.Hour, "how long the token holds; 0 for ever, as with kubeadm")
	return cmd
}
