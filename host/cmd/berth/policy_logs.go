package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/policy"
)

func newPolicyLogs() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show the last lines that a policy's guests have said",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := clientFor(cmd)
			if err != nil {
				return err
			}
			l := &logs{client: c, out: cmd.OutOrStdout(), path: host.FiguresPath + "/" + url.PathEscape(args[0]) + "/logs"}
			if !follow {
				return l.next(cmd.Context())
			}
			return l.follow(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	return cmd
}

// logs prints lines as they come, each once.
type logs struct {
	client *client
	out    io.Writer
	path   string
	last   time.Time
}

func (l *logs) next(ctx context.Context) error {
	var lines []policy.Line
	if err := l.client.get(ctx, l.path, &lines); err != nil {
		return err
	}
	for _, line := range lines {
		if !line.At.After(l.last) {
			continue
		}
		l.last = line.At
		fmt.Fprintf(l.out, "%s %-5s %s\n", line.At.UTC().Format("2006-01-02T15:04:05.000Z"), line.Level, line.Message)
	}
	return nil
}

func (l *logs) follow(ctx context.Context) error {
	for {
		if err := l.next(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}
