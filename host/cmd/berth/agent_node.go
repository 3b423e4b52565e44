package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	kubeletapis "k8s.io/kubelet/pkg/apis"
	"k8s.io/kubernetes/pkg/util/taints"

	"github.com/berth-dev/berth/nodeagent"
	"github.com/berth-dev/berth/nodeagent/podspec"
)

// noDNS in --cluster-dns is no cluster DNS at all.
const noDNS = "none"

// nodeFlags say what this machine's Node is like, in the kubelet's words.
type nodeFlags struct {
	maxPods                      int64
	kubeReserved, systemReserved map[string]string
	labels                       map[string]string
	taintSpecs                   []string
	clusterDNS                   []string
	clusterDomain                string
	staticPods                   string
	handlers                     map[string]string

	// What parse makes of them.
	reserved v1.ResourceList
	taints   []v1.Taint
}

func (f *nodeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Int64Var(&f.maxPods, "max-pods", 110, "how many pods this machine takes (kubelet: maxPods)")
	flags.StringToStringVar(&f.systemReserved, "system-reserved", nil, "what is kept from pods for the machine's own programs, such as cpu=200m,memory=500Mi,ephemeral-storage=1Gi (kubelet: systemReserved)")
	flags.StringToStringVar(&f.kubeReserved, "kube-reserved", nil, "what is kept from pods for the agent and containerd, in the same form (kubelet: kubeReserved)")
	flags.StringToStringVar(&f.labels, "node-labels", nil, "labels of this machine's node, such as zone=a,disk=ssd")
	flags.StringSliceVar(&f.taintSpecs, "register-with-taints", nil, "taints that the node has when it is made, such as gpu=yes:NoSchedule")
	flags.StringVar(&f.staticPods, "pod-manifest-path", "", "folder of manifests of static pods, which run whatever the API says (kubelet: staticPodPath)")
	flags.StringToStringVar(&f.handlers, "runtime-handlers", nil, "runtimes that pods may have besides runc, by the handlers of RuntimeClasses: containerd's, such as kata=io.containerd.kata.v2, or programs that are used as runc is, such as crun=/usr/bin/crun (containerd: runtimes)")
	flags.StringSliceVar(&f.clusterDNS, "cluster-dns", nil, "addresses of the cluster's DNS servers, for pods (kubelet: clusterDNS); by default the agent answers itself, at the address of the Service kube-system/kube-dns; none gives pods the machine's resolvers")
	flags.StringVar(&f.clusterDomain, "cluster-domain", "cluster.local", "domain in which the cluster's DNS names lie (kubelet: clusterDomain)")
}

func (f *nodeFlags) parse() error {
	if f.maxPods < 1 {
		return fmt.Errorf("--max-pods %d: want 1 at least", f.maxPods)
	}
	f.reserved = v1.ResourceList{}
	for flag, given := range map[string]map[string]string{"--system-reserved": f.systemReserved, "--kube-reserved": f.kubeReserved} {
		if err := reserve(f.reserved, given); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	if err := checkLabels(f.labels); err != nil {
		return fmt.Errorf("--node-labels: %w", err)
	}
	add, remove, err := taints.ParseTaints(f.taintSpecs)
	if err == nil && len(remove) > 0 {
		err = fmt.Errorf("%s-: a new node has no taint to take off", remove[0].Key)
	}
	if err != nil {
		return fmt.Errorf("--register-with-taints: %w", err)
	}
	f.taints = add
	if err := checkHandlers(f.handlers); err != nil {
		return fmt.Errorf("--runtime-handlers: %w", err)
	}
	for _, text := range f.clusterDNS {
		if text == noDNS && len(f.clusterDNS) == 1 {
			break
		}
		if _, err := netip.ParseAddr(text); err != nil {
			return fmt.Errorf("--cluster-dns %q: want an IP address, or none alone", text)
		}
	}
	if problems := validation.IsDNS1123Subdomain(f.clusterDomain); len(problems) > 0 {
		return fmt.Errorf("--cluster-domain %q: %s", f.clusterDomain, problems[0])
	}
	return nil
}

// reservable are the resources of which something can be kept from pods.
var reservable = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

func reserve(sum v1.ResourceList, given map[string]string) error {
	for name, text := range given {
		if !slices.Contains(reservable, v1.ResourceName(name)) {
			return fmt.Errorf("%q cannot be reserved: use cpu, memory, ephemeral-storage", name)
		}
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			return fmt.Errorf("%s=%s: want a quantity such as 200m or 500Mi", name, text)
		}
		total := sum[v1.ResourceName(name)]
		total.Add(q)
		sum[v1.ResourceName(name)] = total
	}
	return nil
}

// shim is the form of the names of containerd's runtimes.
var shim = regexp.MustCompile(`^([a-z0-9-]+\.){2,}[a-z0-9-]+\.v[0-9]+$`)

func checkHandlers(handlers map[string]string) error {
	for name, of := range handlers {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%s: %s", name, problems[0])
		}
		if name == "runc" {
			return errors.New("runc is there already: use another name")
		}
		if !filepath.IsAbs(of) && !shim.MatchString(of) {
			return fmt.Errorf("%s=%s: want the path of a program, or a runtime of containerd's such as io.containerd.kata.v2", name, of)
		}
	}
	return nil
}

// checkLabels refuses what the API would refuse, when the machine has joined.
func checkLabels(labels map[string]string) error {
	for key, value := range labels {
		if problems := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(problems) > 0 {
			return fmt.Errorf("%s=%s: %s", key, value, problems[0])
		}
		domain, _, ok := strings.Cut(key, "/")
		if ok && (strings.HasSuffix("."+domain, ".kubernetes.io") || strings.HasSuffix("."+domain, ".k8s.io")) && !kubeletapis.IsKubeletLabel(key) {
			return fmt.Errorf("%s: a machine may not give itself this label; use kubectl label", key)
		}
	}
	return nil
}

// blank is the node before the agent has told of it: nothing is placed there.
func (f *nodeFlags) blank(name string) *v1.Node {
	labels := map[string]string{v1.LabelHostname: name}
	for key, value := range f.labels {
		labels[key] = value
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       v1.NodeSpec{Taints: append([]v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}}, f.taints...)},
	}
}

// into puts them into the agent's configuration.
func (f *nodeFlags) into(cfg *nodeagent.Config) {
	cfg.MaxPods, cfg.Reserved, cfg.Labels, cfg.Taints = f.maxPods, f.reserved, f.labels, f.taints
	cfg.StaticPods = f.staticPods
	cfg.DNS = podspec.ClusterDNS{Domain: f.clusterDomain}
	if !slices.Equal(f.clusterDNS, []string{noDNS}) {
		cfg.DNS.Servers = f.clusterDNS
	}
}

// answerAt waits for the addresses of the cluster's DNS service, unless pods are
// to ask others.
func (f *nodeFlags) answerAt(ctx context.Context, client kubernetes.Interface, log *slog.Logger) []netip.Addr {
	if len(f.clusterDNS) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		service, err := client.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
		if err == nil {
			return addressesOf(service)
		}
		select {
		case <-ctx.Done():
			log.Error("no Service kube-system/kube-dns, so no cluster DNS on this machine: its pods are given the machine's resolvers; make the Service, or name servers by --cluster-dns", "err", err)
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func addressesOf(service *v1.Service) []netip.Addr {
	var all []netip.Addr
	for _, text := range service.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// readToken takes a token from a file, or standard input, where no list of
// processes shows it.
func readToken(token, file string, stdin io.Reader) (string, error) {
	if file == "" {
		return token, nil
	}
	if token != "" {
		return "", errors.New("--token and --token-file: give one of them")
	}
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, 64<<10))
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
