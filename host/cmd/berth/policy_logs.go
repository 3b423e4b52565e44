package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/policy/sandbox"
)

func newPolicyLogs() *cobra.Command {
	var follow bool
	var level string
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show what a policy's guests said last, and how they failed",
		Long: "Shows what the guests of a policy said by sdk.Log, and each failure with pod, node and the\n" +
			"guest's functions. The host keeps the last 200 lines of a policy, cuts long ones, and drops\n" +
			"what comes too fast; it says so where it does.",
		Example: "  berth policy logs gpu-only -f --level warn",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			least, err := levelOf("--level", level)
			if err != nil {
				return err
			}
			c, err := clientFor(cmd)
			if err != nil {
				return err
			}
			l := &logs{
				client: c, out: cmd.OutOrStdout(), aside: cmd.ErrOrStderr(), least: least,
				path: berthapi.FiguresPath + "/" + url.PathEscape(args[0]) + "/logs",
			}
			if !follow {
				return l.next(cmd.Context())
			}
			return l.follow(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted, or until the host ends")
	cmd.Flags().StringVar(&level, "level", "debug", "the least level to show: debug, info, warn or error")
	oneOf(cmd, "level", "debug", "info", "warn", "error")
	return cmd
}

// logs prints lines as they come, each once.
type logs struct {
	client     *client
	out, aside io.Writer
	path       string
	least      slog.Level
	last       int64 // number of the line printed last
}

func (l *logs) next(ctx context.Context) error {
	var lines []sandbox.Line
	if err := l.client.get(ctx, l.path, &lines); err != nil {
		return err
	}
	if n := len(lines); n > 0 && lines[n-1].Number < l.last {
		l.last = 0 // another policy of that name
	}
	for _, line := range lines {
		if line.Number <= l.last {
			continue
		}
		if lost := line.Number - l.last - 1; l.last > 0 && lost > 0 {
			fmt.Fprintf(l.aside, "%s not shown: the host keeps the last %d\n", plural(int(lost), "line"), len(lines))
		}
		l.last = line.Number
		if line.Level >= l.least {
			fmt.Fprintf(l.out, "%s %-5s %s\n", line.At.UTC().Format("2006-01-02T15:04:05.000Z"), line.Level, line.Message)
		}
	}
	return nil
}

// follow prints what comes. That the host ends is the end of its lines, not a
// failure.
func (l *logs) follow(ctx context.Context) error {
	for began := false; ; began = true {
		err := l.next(ctx)
		var said *serverError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && began && !errors.As(err, &said):
			fmt.Fprintln(l.aside, "the host has ended:", err)
			return nil
		case err != nil:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}
