package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/reach"
)

// serviceWords are the names of services' kind.
var serviceWords = []string{"service", "services", "svc"}

func newExplainService() *cobra.Command {
	of := explainFlags{}
	cmd := &cobra.Command{
		Use: "service NAME", Aliases: []string{"services", "svc"},
		Short:   "Show what a node does with packets to a service, and why",
		Example: "  berth explain service web\n  berth explain service web --node n2",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return of.service(cmd, args[0]) },
	}
	of.format = addOutputFlag(cmd)
	addNamespaceFlag(cmd, &of.namespace, "the service's namespace")
	of.addNodeFlag(cmd)
	of.addLimitFlag(cmd, "endpoints")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return namesIn(cmd, "services", begun), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func (f *explainFlags) addNodeFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.node, "node", "", "of a service: as this node forwards it; by default the first that is ready")
}

// service explains what a node does with packets to a service.
func (f *explainFlags) service(cmd *cobra.Command, name string) error {
	if f.limit < 0 {
		return fmt.Errorf("--limit %d: want a number of endpoints, 0 for all", f.limit)
	}
	c, err := clientFor(cmd)
	if err != nil {
		return err
	}
	svc, slicesOf, err := c.service(cmd.Context(), c.in(f.namespace), name)
	if err != nil {
		return err
	}
	pods, err := listOf[v1.PodList](cmd.Context(), c, podsPath(svc.Namespace))
	if err != nil {
		return err
	}
	nodes, err := listOf[v1.NodeList](cmd.Context(), c, "/api/v1/nodes")
	if err != nil {
		return err
	}
	node, err := f.asNode(nodes.Items)
	if err != nil {
		return err
	}
	report := reach.OfService(svc, slicesOf, pointers(pods.Items), reach.NodeOf(pointers(nodes.Items), node))
	if f.format.asTable() && f.format.format != "name" {
		return report.Write(cmd.OutOrStdout(), f.limit)
	}
	return f.format.printAs(cmd.OutOrStdout(), report, func() *table {
		return &table{kind: "service", head: []string{"NAME"}, rows: [][]string{{report.Name}}}
	})
}

// asNode is the node whose rules are told: the one that was named, or the first
// that is ready.
func (f *explainFlags) asNode(nodes []v1.Node) (string, error) {
	for i := range nodes {
		if nodes[i].Name == f.node || f.node == "" && isReady(&nodes[i]) {
			return nodes[i].Name, nil
		}
	}
	switch {
	case f.node != "":
		return "", fmt.Errorf("there is no node %s: `kubectl get nodes` shows those there are", f.node)
	case len(nodes) == 0:
		return "", errors.New("the cluster has no node yet, so nobody forwards anything")
	}
	return nodes[0].Name, nil
}

// reach explains what becomes of a connection of a pod.
func (f *explainFlags) reach(cmd *cobra.Command, pod string) error {
	name, err := nameOf(pod, podWords...)
	if err != nil {
		return err
	}
	c, err := clientFor(cmd)
	if err != nil {
		return err
	}
	ctx, namespace := cmd.Context(), c.in(f.namespace)
	to, err := c.destination(ctx, namespace, f.to)
	if err != nil {
		return err
	}
	from := new(v1.Pod)
	if err := c.get(ctx, podsPath(namespace)+"/"+url.PathEscape(name), from); err != nil {
		return err
	}
	cluster, err := c.around(ctx, namespace, to)
	if err != nil {
		return err
	}
	way := reach.OfPod(from, *to, *cluster)
	if f.format.asTable() && f.format.format != "name" {
		return way.Write(cmd.OutOrStdout())
	}
	return f.format.printAs(cmd.OutOrStdout(), way, func() *table {
		return &table{kind: "pod", head: []string{"NAME"}, rows: [][]string{{from.Name}}}
	})
}

const wantDestination = "want NAME:PORT of a service, NAME.NAMESPACE:PORT, pod/NAME:PORT or ADDRESS:PORT, and /UDP behind it for another protocol than TCP"

// destination reads B of --to B.
func (c *client) destination(ctx context.Context, namespace, text string) (*reach.Destination, error) {
	bad := func() error { return fmt.Errorf("--to %q: %s", text, wantDestination) }
	to := &reach.Destination{Text: text, Protocol: forward.TCP}
	rest, isPod := strings.CutPrefix(withoutKind(text, serviceWords), "pod/")
	if cut := strings.LastIndex(rest, "/"); cut >= 0 {
		protocol, known := map[string]forward.Protocol{"TCP": forward.TCP, "UDP": forward.UDP, "SCTP": forward.SCTP}[strings.ToUpper(rest[cut+1:])]
		if !known {
			return nil, bad()
		}
		rest, to.Protocol = rest[:cut], protocol
	}
	cut := strings.LastIndex(rest, ":")
	if cut < 0 {
		return nil, bad()
	}
	host := strings.Trim(rest[:cut], "[]")
	port, err := strconv.ParseUint(rest[cut+1:], 10, 16)
	if err != nil || port == 0 || host == "" {
		return nil, bad()
	}
	to.Port, to.Text = uint16(port), host
	if isPod {
		name, in, _ := strings.Cut(host, ".")
		to.Pod = new(v1.Pod)
		return to, c.get(ctx, podsPath(cmp.Or(in, namespace))+"/"+url.PathEscape(name), to.Pod)
	}
	if to.Addr, err = netip.ParseAddr(host); err == nil {
		return to, c.servedAt(ctx, to)
	}
	labels := strings.Split(host, ".")
	if len(labels) > 1 {
		namespace = labels[1]
	}
	if len(labels) > 2 && labels[2] != "svc" || host == "" {
		return nil, fmt.Errorf("--to %q: the cluster's DNS has no such name, and asks the node's resolvers; %s", text, wantDestination)
	}
	to.Service, to.Slices, err = c.service(ctx, namespace, labels[0])
	if isNotFound(err) {
		err = fmt.Errorf("--to %q: %w in namespace %s; of a pod want pod/%s:%d", text, err, namespace, host, port)
	}
	return to, err
}

// withoutKind drops one of a kind's names and its slash from the front.
func withoutKind(text string, kind []string) string {
	if word, rest, _ := strings.Cut(text, "/"); slices.Contains(kind, word) {
		return rest
	}
	return text
}

// servedAt finds the service that has an address.
func (c *client) servedAt(ctx context.Context, to *reach.Destination) error {
	all, err := listOf[v1.ServiceList](ctx, c, "/api/v1/services")
	if err != nil {
		return err
	}
	for i := range all.Items {
		if slices.Contains(all.Items[i].Spec.ClusterIPs, to.Addr.String()) {
			to.Service, to.Slices, err = c.service(ctx, all.Items[i].Namespace, all.Items[i].Name)
			return err
		}
	}
	return nil
}

// around is what of the cluster matters to a way.
func (c *client) around(ctx context.Context, from string, to *reach.Destination) (*reach.Cluster, error) {
	out := &reach.Cluster{}
	paths := map[string]bool{podsPath(from): true}
	policies := map[string]bool{policiesPath(from): true}
	switch {
	case to.Service != nil:
		paths[podsPath(to.Service.Namespace)], policies[policiesPath(to.Service.Namespace)] = true, true
	case to.Pod != nil:
		paths[podsPath(to.Pod.Namespace)], policies[policiesPath(to.Pod.Namespace)] = true, true
	default: // whose address it is nobody says
		paths = map[string]bool{"/api/v1/pods": true}
		policies = map[string]bool{"/apis/networking.k8s.io/v1/networkpolicies": true}
	}
	for path := range paths {
		list, err := listOf[v1.PodList](ctx, c, path)
		if err != nil {
			return nil, err
		}
		out.Pods = append(out.Pods, pointers(list.Items)...)
	}
	for path := range policies {
		list, err := listOf[networkingv1.NetworkPolicyList](ctx, c, path)
		if err != nil {
			return nil, err
		}
		out.Policies = append(out.Policies, pointers(list.Items)...)
	}
	namespaces, err := listOf[v1.NamespaceList](ctx, c, "/api/v1/namespaces")
	if err != nil {
		return nil, err
	}
	nodes, err := listOf[v1.NodeList](ctx, c, "/api/v1/nodes")
	if err != nil {
		return nil, err
	}
	out.Namespaces, out.Nodes = pointers(namespaces.Items), pointers(nodes.Items)
	return out, nil
}

// service reads one with its slices.
func (c *client) service(ctx context.Context, namespace, name string) (*v1.Service, []*discoveryv1.EndpointSlice, error) {
	svc := new(v1.Service)
	if err := c.get(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/services/"+url.PathEscape(name), svc); err != nil {
		return nil, nil, err
	}
	query := url.Values{"labelSelector": {discoveryv1.LabelServiceName + "=" + name}}
	list, err := listOf[discoveryv1.EndpointSliceList](ctx, c, "/apis/discovery.k8s.io/v1/namespaces/"+url.PathEscape(namespace)+"/endpointslices?"+query.Encode())
	if err != nil {
		return nil, nil, err
	}
	return svc, pointers(list.Items), nil
}

func podsPath(namespace string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods"
}

func policiesPath(namespace string) string {
	return "/apis/networking.k8s.io/v1/namespaces/" + url.PathEscape(namespace) + "/networkpolicies"
}

func listOf[L any](ctx context.Context, c *client, path string) (*L, error) {
	list := new(L)
	return list, c.get(ctx, path, list)
}

func pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}
