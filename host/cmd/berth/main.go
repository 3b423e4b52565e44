// Command berth is the host, the node agent and the tool to steer them, in one
// binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/nodeagent/machine"
)

// plugin is the name under which kubectl finds this binary, as `kubectl berth`.
const plugin = "kubectl-berth"

// version is set by the linker.
var version = "devel"

func main() {
	// A child that keeps containers' streams never gets to the commands.
	machine.Main()

	// Libraries of Kubernetes complain there of each client that leaves.
	klog.SetLogger(logr.Discard())
	ctx, signalled := untilSignal()
	root := newRoot()
	if filepath.Base(os.Args[0]) == plugin {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl berth"}
	}
	root.SetArgs(asGoHasIt(os.Args[1:]))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return
	}
	var code exitCode
	switch {
	case errors.As(err, &code):
	case signalled() != 0 && errors.Is(err, context.Canceled):
		code = exitCode(128 + int(signalled())) // as shells have it
	default:
		fmt.Fprintf(os.Stderr, "berth: %v\n", err)
		code = 1
	}
	os.Exit(int(code))
}

// untilSignal is a context that ends at Ctrl-C or SIGTERM, and which of them it
// was, 0 for none. A second one ends the process as it is, in the midst of what
// it puts in order.
func untilSignal() (ctx context.Context, signalled func() syscall.Signal) {
	ctx, cancel := context.WithCancel(context.Background())
	var got atomic.Int32
	come := make(chan os.Signal, 1)
	signal.Notify(come, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		s, _ := (<-come).(syscall.Signal)
		got.Store(int32(s))
		signal.Stop(come)
		cancel()
	}()
	return ctx, func() syscall.Signal { return syscall.Signal(got.Load()) }
}

// asGoHasIt takes -run for --run, as go test writes it.
func asGoHasIt(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "-run" || strings.HasPrefix(arg, "-run=") {
			args[i] = "-" + arg
		}
	}
	return args
}

// exitCode ends the process with a code, after all was said.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit %d", int(c)) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "A Kubernetes-compatible control plane whose every decision is a wasm policy",
		Long: "Berth does what a Kubernetes control plane and kubelet do for a pod. Everything that\n" +
			"decides in it is a sandboxed WebAssembly module, loaded and swapped while pods flow.",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().String("kubeconfig", "", "kubeconfig of the cluster to talk to")
	root.PersistentFlags().String("context", "", "context of the kubeconfig to use")
	_ = root.RegisterFlagCompletionFunc("context", contextNames)
	root.AddCommand(
		newUp(), newHost(), newAgent(), newToken(),
		newPolicy(), newExplain(), newPlan(), newReplay(), newBackup(), newRestore(),
		newConsole(), newImage(), newVersion(), newMan(),
	)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see `%s --help`", err, cmd.CommandPath())
	})
	root.SetHelpFunc(help)
	root.InitDefaultCompletionCmd()
	guide(root)
	return root
}

// guide has commands say how they are used where they are used wrongly.
func guide(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		guide(sub)
	}
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			if err := args(cmd, given); err != nil {
				return fmt.Errorf("%w: use `%s`", err, cmd.UseLine())
			}
			return nil
		}
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = unknownSubcommand
	}
}

func unknownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := fmt.Sprintf("see `%s --help`", cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if all := cmd.Commands(); len(all) > 1 && len(all) < 5 {
		names := make([]string, len(all))
		for i, sub := range all {
			names[i] = sub.Name()
		}
		hint = "use " + strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	} else if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q: %s", args[0], cmd.CommandPath(), hint)
}

// clientFor makes the client that cmd's flags ask for.
func clientFor(cmd *cobra.Command) (*client, error) {
	kubeconfig, err := cmd.Flags().GetString("kubeconfig")
	if err != nil {
		return nil, err
	}
	contextName, err := cmd.Flags().GetString("context")
	if err != nil {
		return nil, err
	}
	return newClient(kubeconfig, contextName, cmd.ErrOrStderr())
}

// defaultDataDir is where a host keeps its state unless told otherwise.
func defaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/berth"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "berth")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "berth-data"
	}
	return filepath.Join(home, ".local", "share", "berth")
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	format := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		value := map[string]string{"berth": version, "kubernetes": "v1.36.3", "abi": "v1"}
		return format.printAs(cmd.OutOrStdout(), value, func() *table {
			return &table{
				kind: "version",
				head: []string{"BERTH", "KUBERNETES API", "ABI"},
				rows: [][]string{{value["berth"], value["kubernetes"], value["abi"]}},
			}
		})
	}
	return cmd
}
