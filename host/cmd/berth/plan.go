package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func newPlan() *cobra.Command {
	var file, namespace string
	var policies []string
	cmd := &cobra.Command{
		Use:   "plan -f PODS.yaml",
		Short: "Say where pods would go, without making any",
		Long: "Asks the live policies where the pods of a file would go, one after the other, from the present\n" +
			"state on. Nothing is created. With --policy, the module in FILE.wasm takes the place of the one that\n" +
			"NAME has; the plan then says too where the live policies would place a pod, if that differs.\n" +
			"A NAME that no Policy has yet joins the profile default.\n" +
			"\nExit code 0: every pod would get a node. 2: some would not.",
		Example: "  berth plan -f pods.yaml\n  kubectl get pod web -o yaml | berth plan -f -\n" +
			"  berth plan -f pods.yaml --policy gpu-only=gpu-only.wasm",
		Args: cobra.NoArgs,
	}
	format := addOutputFlag(cmd)
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with pods, YAML or JSON; - for standard input")
	addNamespaceFlag(cmd, &namespace, "namespace of pods that name none")
	cmd.Flags().StringArrayVar(&policies, "policy", nil, "NAME=FILE.wasm: plan as if that module were the policy's")
	_ = cmd.MarkFlagRequired("filename")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := clientFor(cmd)
		if err != nil {
			return err
		}
		pods, err := readPods(cmd.InOrStdin(), file)
		if err != nil {
			return err
		}
		variations, err := c.variations(cmd.Context(), policies)
		if err != nil {
			return err
		}
		done := during(cmd.ErrOrStderr(), "planning "+plural(len(pods), "pod"))
		placed, err := c.plan(cmd.Context(), pods, c.in(namespace), variations)
		done()
		if err != nil {
			return err
		}
		show := func() *table { return planTable(placed, len(variations) > 0) }
		if err := format.printAs(cmd.OutOrStdout(), placed, show); err != nil {
			return err
		}
		return verdictOf(placed)
	}
	return cmd
}

// verdictOf is exit code 2 if a pod would stay without a node.
func verdictOf(placed []explain.Placement) error {
	for i := range placed {
		if placed[i].Node == "" {
			return exitCode(2)
		}
	}
	return nil
}

func planTable(placed []explain.Placement, varied bool) *table {
	t := &table{kind: "pod", head: []string{"POD", "NODE", "PREEMPTS", "SCORE", "EQUAL", "FEASIBLE", "NODES"}, wide: 4}
	if varied {
		t.head = []string{"POD", "NODE", "LIVE POLICIES SAY", "PREEMPTS", "SCORE", "EQUAL", "FEASIBLE", "NODES"}
	}
	for i := range placed {
		p := &placed[i]
		cells := []string{p.Namespace + "/" + p.Pod, p.Node}
		switch {
		case varied && !p.Differs:
			cells = append(cells, "the same")
		case varied:
			cells = append(cells, p.Live)
		}
		t.add(append(cells, strings.Join(p.Preempts, ","), fmt.Sprint(p.Score), fmt.Sprint(p.Tied), fmt.Sprint(p.Feasible), fmt.Sprint(p.Nodes))...)
		t.note(p.Namespace+"/"+p.Pod, p.Message)
	}
	return t
}

// variations reads what --policy names.
func (c *client) variations(ctx context.Context, flags []string) ([]trial.Variation, error) {
	var all []trial.Variation
	for _, flag := range flags {
		name, file, ok := strings.Cut(flag, "=")
		if !ok || name == "" || file == "" {
			return nil, fmt.Errorf("--policy %s: want NAME=FILE.wasm", flag)
		}
		wasm, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		v := trial.Variation{Name: name, Wasm: wasm}
		if err := c.get(ctx, policyAPI+"policies/"+url.PathEscape(name), &v1alpha1.Policy{}); isNotFound(err) {
			v.Profile = "default"
		}
		all = append(all, v)
	}
	return all, nil
}

// plan has each pod completed as if it were created, and asks where they go.
func (c *client) plan(ctx context.Context, pods []v1.Pod, namespace string, policies []trial.Variation) ([]explain.Placement, error) {
	request := berthapi.PlanRequest{Items: make([]v1.Pod, len(pods)), Policies: policies}
	for i := range pods {
		if err := c.complete(ctx, &pods[i], namespace, &request.Items[i]); err != nil {
			return nil, fmt.Errorf("pod %s: %w", pods[i].Name, err)
		}
	}
	body, err := json.Marshal(&request)
	if err != nil {
		return nil, err
	}
	var placed []explain.Placement
	return placed, c.send(ctx, "POST", berthapi.PlanPath, "application/json", body, &placed)
}

// complete gives a pod its defaults by a creation that is not carried out. What
// only a pod that exists has is left behind, so that one can be planned anew.
func (c *client) complete(ctx context.Context, pod *v1.Pod, namespace string, into *v1.Pod) error {
	if pod.Namespace == "" {
		pod.Namespace = namespace
	}
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.UID, pod.ResourceVersion, pod.Spec.NodeName, pod.Status = "", "", "", v1.PodStatus{}
	name := pod.Name
	pod.Name, pod.GenerateName = "", planned(pod)
	body, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	path := "/api/v1/namespaces/" + url.PathEscape(pod.Namespace) + "/pods?dryRun=All"
	if err := c.send(ctx, "POST", path, "application/json", body, into); err != nil {
		pod.Name = name
		return errors.New(generated.ReplaceAllLiteralString(err.Error(), name))
	}
	if name != "" {
		into.Name = name
	}
	return nil
}

// plannedPrefix begins the names of pods that are completed and have a name of their
// own: another pod may have that.
const plannedPrefix = "planned-"

// generated are such names, in what the API says of them.
var generated = regexp.MustCompile(plannedPrefix + "[a-z0-9]{5}\\b")

// planned is a prefix for a name that no pod has yet.
func planned(pod *v1.Pod) string {
	if pod.GenerateName != "" {
		return pod.GenerateName
	}
	return plannedPrefix
}

// readPods reads a manifest of pods from a file, or from stdin where that is "-".
func readPods(stdin io.Reader, file string) ([]v1.Pod, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	pods, err := explain.ReadPods(stdin)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return pods, nil
}
