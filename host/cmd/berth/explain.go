package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/explain"
)

const explainExample = "  berth explain pod web\n  berth explain pod/web --why-not n2\n  berth explain pod web -o wide    # with what is left out else\n  berth explain deployment web\n  berth explain service web --node n2\n  berth explain pod web --to db:5432"

func newExplain() *cobra.Command {
	of := new(explainFlags)
	cmd := &cobra.Command{
		Use: "explain KIND/NAME", Short: "Say why a pod is where it is, or what an object waits for", Example: explainExample,
		Long: "Say why a pod is where it is, or why it waits: each node by each policy. Of a Service, what a\n" +
			"node does with packets to it; with --to, what becomes of a pod's connection. Of any other kind,\n" +
			"what its controllers said last, and what keeps its children and pods.",
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			name, isPod := strings.CutPrefix(begun, "pod/")
			if !isPod {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names := podNames(cmd, name)
			for i := range names {
				names[i] = "pod/" + names[i]
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	of.add(cmd)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		resource, name := "", ""
		if len(args) == 1 {
			resource, name, _ = strings.Cut(args[0], "/")
		} else if len(args) == 2 {
			resource, name = args[0], args[1]
		}
		if err := of.goTogether(resource); resource != "" && name != "" && err != nil {
			return err
		}
		switch {
		case resource == "" || name == "":
			if len(args) > 0 {
				return errors.New("name one object: berth explain KIND NAME, or KIND/NAME")
			}
			return unknownSubcommand(cmd, args)
		case slices.Contains(podWords, resource):
			return of.run(cmd, name)
		case slices.Contains(serviceWords, resource):
			return of.service(cmd, name)
		}
		return of.parent(cmd, resource, name)
	}
	cmd.AddCommand(newExplainPod(), newExplainService())
	return cmd
}

func newExplainPod() *cobra.Command {
	of := new(explainFlags)
	cmd := &cobra.Command{
		Use:     "pod NAME",
		Aliases: []string{"pods", "po"},
		Short:   "Show each node by each policy: reasons, scores, weights",
		Example: explainExample,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := of.goTogether("pod"); err != nil {
				return err
			}
			return of.run(cmd, args[0])
		},
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return podNames(cmd, begun), cobra.ShellCompDirectiveNoFileComp
	}
	of.add(cmd)
	return cmd
}

// explainFlags are those of both ways to write it: pod NAME and pod/NAME.
type explainFlags struct {
	namespace, whyNot string
	to, node          string
	limit             int
	format            *output
}

func (f *explainFlags) add(cmd *cobra.Command) {
	f.format = addOutputFlag(cmd)
	flags := cmd.Flags()
	addNamespaceFlag(cmd, &f.namespace, "the pod's namespace")
	flags.StringVar(&f.whyNot, "why-not", "", "show this node alone")
	flags.StringVar(&f.to, "to", "", "say what becomes of a connection of the pod's to this service, pod or address, such as db:5432, db.other:53/UDP or pod/NAME:80")
	f.addNodeFlag(cmd)
	f.addLimitFlag(cmd, "nodes, or endpoints of a service")
	_ = cmd.RegisterFlagCompletionFunc("why-not", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return objectNames(cmd, "/api/v1/nodes", begun), cobra.ShellCompDirectiveNoFileComp
	})
}

func (f *explainFlags) addLimitFlag(cmd *cobra.Command, what string) {
	cmd.Flags().IntVar(&f.limit, "limit", 20, "show at most this many "+what+"; 0 for all")
}

// podWords are the names of pods' kind.
var podWords = []string{"pod", "pods", "po"}

// goTogether refuses flags of other kinds than the one that is explained, and
// questions that are two.
func (f *explainFlags) goTogether(resource string) error {
	pod, service := slices.Contains(podWords, resource), slices.Contains(serviceWords, resource)
	switch {
	case f.whyNot != "" && !pod:
		return fmt.Errorf("--why-not is of pods: a %s goes to no node", resource)
	case f.to != "" && !pod:
		return fmt.Errorf("--to is of pods: a %s begins no connections", resource)
	case f.node != "" && pod:
		return fmt.Errorf("--node is of services: --why-not %s shows that node of a pod", f.node)
	case f.node != "" && !service:
		return fmt.Errorf("--node is of services: of a %s all is told", resource)
	case f.to != "" && f.whyNot != "":
		return errors.New("--to asks about a connection, --why-not about a node: give one of them")
	}
	return nil
}

// parent explains what controllers make of an object.
func (f *explainFlags) parent(cmd *cobra.Command, resource, name string) error {
	c, err := clientFor(cmd)
	if err != nil {
		return err
	}
	query := url.Values{"resource": {resource}, "namespace": {c.in(f.namespace)}, "name": {name}}
	report := new(explain.Parent)
	if err := c.get(cmd.Context(), berthapi.ExplainPath+"?"+query.Encode(), report); err != nil {
		return err
	}
	if f.format.asTable() && f.format.format != "name" {
		out := cmd.OutOrStdout()
		return report.Write(out, explain.Page{Columns: lookOf(out).columns})
	}
	return f.format.printAs(cmd.OutOrStdout(), report, func() *table {
		return &table{kind: strings.ToLower(report.Kind), head: []string{"NAME"}, rows: [][]string{{report.Name}}}
	})
}

func (f *explainFlags) run(cmd *cobra.Command, pod string) error {
	if f.to != "" {
		return f.reach(cmd, pod)
	}
	name, err := nameOf(pod, podWords...)
	if err != nil {
		return err
	}
	whyNot, err := nameOf(f.whyNot, "node", "nodes", "no")
	if err != nil {
		return err
	}
	c, err := clientFor(cmd)
	if err != nil {
		return err
	}
	query := url.Values{"limit": {strconv.Itoa(f.limit)}}
	if whyNot != "" {
		query.Set("node", whyNot)
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/explain?%s", url.PathEscape(c.in(f.namespace)), url.PathEscape(name), query.Encode())
	report := new(explain.Report)
	done := during(cmd.ErrOrStderr(), "deriving the decision again")
	err = c.get(cmd.Context(), path, report)
	done()
	if err != nil {
		return err
	}
	if f.format.asTable() && f.format.format != "name" {
		out := cmd.OutOrStdout()
		return report.Write(out, explain.Page{Wide: f.format.format == "wide", Columns: lookOf(out).columns})
	}
	return f.format.printAs(cmd.OutOrStdout(), report, func() *table {
		return &table{kind: "pod", head: []string{"POD"}, rows: [][]string{{report.Pod}}}
	})
}

// nameOf takes the kind off KIND/NAME, which must be one of kinds.
func nameOf(arg string, kinds ...string) (string, error) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok {
		return arg, nil
	}
	for _, k := range kinds {
		if kind == k {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s is no %s: want NAME or %[2]s/NAME", arg, kinds[0])
}
