package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/abi"
	tables "github.com/berth-dev/berth/host/policy/table"
)

func newPolicyRun() *cobra.Command {
	var from source
	var pod, entry, config string
	var nodes []string
	cmd := &cobra.Command{
		Use:   "run [DIR|FILE.wasm]",
		Short: "Ask a policy one question, without a host: a pod and nodes",
		Long: "Builds the policy in DIR, or takes FILE.wasm, and prints what it says of the pod and each node,\n" +
			"as Kubernetes writes them: the reason for which a predicate refuses, the score of a priority.\n" +
			"Limits and config are those of DIR's policy.yaml where no flag says otherwise.",
		Example: "  berth policy run --pod pod.yaml --node node.yaml\n" +
			"  kubectl get nodes -o yaml > nodes.yaml\n  berth policy run gpu-only.wasm --pod pod.yaml --node nodes.yaml -o json",
		Args: cobra.MaximumNArgs(1),
	}
	format := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := first(args, ".")
		t, err := question(pod, nodes)
		if err != nil {
			return err
		}
		f := pushFlags{config: config, entry: entry}
		own, err := readOwn(path)
		if err != nil {
			return err
		}
		if own != nil {
			f.adopt(own)
		}
		t.Policy = f.entry
		if f.own.Limits != nil {
			t.Limits = *f.own.Limits
		}
		settings, err := f.readConfig()
		if err != nil {
			return err
		}
		if settings != nil {
			t.Config = settings.Raw
		}
		wasm, err := from.module(cmd.Context(), cmd.ErrOrStderr(), path)
		if err != nil {
			return err
		}
		g, release, err := opened(cmd.Context(), wasm, t)
		if err != nil {
			return err
		}
		defer release()
		answers, err := g.Ask(cmd.Context(), t.Cluster(len(t.Nodes)), &t.Cases[0])
		if err != nil {
			return fmt.Errorf("%w%s%s", err, raisedBy(err), guestStack(err))
		}
		return format.printAs(cmd.OutOrStdout(), answers, func() *table { return answersTable(g.Kind, answers) })
	}
	from.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&pod, "pod", "", "file with the pod, YAML or JSON; - for standard input")
	flags.StringArrayVar(&nodes, "node", nil, "file with nodes, YAML or JSON; may be given more than once")
	flags.StringVar(&entry, "entry", "", "the policy in the module; needed only if the module holds several")
	flags.StringVar(&config, "config", "", "file with the policy's config, JSON or YAML")
	_ = cmd.MarkFlagRequired("pod")
	_ = cmd.MarkFlagRequired("node")
	return cmd
}

func answersTable(kind string, answers []tables.Answer) *table {
	t := &table{kind: "node", head: []string{"NODE", "ANSWER"}}
	for _, a := range answers {
		said := a.Reason
		switch {
		case kind == abi.KindPriority:
			said = strconv.FormatInt(*a.Score, 10)
		case said == "":
			said = "admits"
		default:
			said = "refuses: " + said
		}
		t.add(a.Node, said)
	}
	return t
}

// question is a table of one pod.
func question(pod string, files []string) (*tables.Table, error) {
	pods, err := readPods(os.Stdin, pod)
	if err != nil {
		return nil, err
	}
	if len(pods) != 1 {
		return nil, fmt.Errorf("%s holds %d pods: one is asked about", pod, len(pods))
	}
	t := &tables.Table{Cases: []tables.Case{{Name: pods[0].Name, Pod: pods[0]}}}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var list v1.NodeList
		if err := yaml.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("%s: %s", file, plainly(err))
		}
		if list.Items == nil {
			var node v1.Node
			if err := yaml.UnmarshalStrict(data, &node); err != nil {
				return nil, fmt.Errorf("%s: %s", file, plainly(err))
			}
			list.Items = []v1.Node{node}
		}
		t.Nodes = append(t.Nodes, list.Items...)
	}
	for i := range t.Nodes {
		if t.Nodes[i].Name == "" {
			return nil, errors.New("each node needs a metadata.name")
		}
	}
	return t, nil
}
