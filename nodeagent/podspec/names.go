package podspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Hostname is the pod's host name: its own or its metadata's, cut to 63.
func Hostname(p *v1.Pod) string {
	name := p.Spec.Hostname
	if p.Spec.HostnameOverride != nil {
		name = *p.Spec.HostnameOverride
	}
	if name == "" {
		name = p.Name
	}
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], "-.")
	}
	return name
}

// Names gives what the kernel's host name is set to, and the pod's full name
// where it has one (subdomain).
func Names(p *v1.Pod, clusterDomain string) (kernel, fqdn string, err error) {
	kernel = Hostname(p)
	if p.Spec.Subdomain != "" && p.Spec.HostnameOverride == nil {
		fqdn = kernel + "." + p.Spec.Subdomain + "." + p.Namespace + ".svc." + clusterDomain
	}
	if p.Spec.SetHostnameAsFQDN != nil && *p.Spec.SetHostnameAsFQDN && fqdn != "" {
		if len(fqdn) > 64 {
			return "", "", fmt.Errorf("setHostnameAsFQDN: %q is longer than 64 characters", fqdn)
		}
		kernel = fqdn
	}
	return kernel, fqdn, nil
}

// Hosts gives the content of a pod's /etc/hosts. For a pod on the host's
// network, machine is the machine's own file.
func Hosts(p *v1.Pod, ips []string, fqdn string, machine []byte) []byte {
	var b strings.Builder
	b.WriteString("# Kubernetes-managed hosts file")
	if p.Spec.HostNetwork {
		b.WriteString(" (host network).\n")
		b.Write(machine)
	} else {
		b.WriteString(".\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		for _, ip := range ips {
			if fqdn != "" {
				fmt.Fprintf(&b, "%s\t%s\t%s\n", ip, fqdn, Hostname(p))
			} else {
				fmt.Fprintf(&b, "%s\t%s\n", ip, Hostname(p))
			}
		}
	}
	if len(p.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
		for _, a := range p.Spec.HostAliases {
			fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
		}
	}
	return []byte(b.String())
}

// DNS is what a resolv.conf says.
type DNS struct {
	Servers, Searches, Options []string
}

// ClusterDNS is what the cluster offers for names; no Servers: no cluster DNS.
type ClusterDNS struct {
	Servers []string
	Domain  string
}

// The most that a resolv.conf holds, by Kubernetes' limits.
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

// Lack is what a pod's resolver settings should have and have not, as an Event says it.
type Lack struct{ Reason, Message string }

// ResolvConf gives a pod's resolver settings by its dnsPolicy and dnsConfig, and what
// they lack; host is the machine's own.
func ResolvConf(p *v1.Pod, host DNS, cluster ClusterDNS) (d DNS, lacks []Lack) {
	policy := cmp.Or(p.Spec.DNSPolicy, v1.DNSClusterFirst)
	switch {
	case policy == v1.DNSClusterFirst && p.Spec.HostNetwork:
		policy = v1.DNSDefault
	case policy != v1.DNSNone && policy != v1.DNSDefault && len(cluster.Servers) == 0:
		lacks = append(lacks, Lack{"MissingClusterDNS", fmt.Sprintf(
			"its node has no cluster DNS: in place of dnsPolicy %s it has the machine's servers, as by Default", policy)})
		policy = v1.DNSDefault
	}
	switch policy {
	case v1.DNSNone:
	case v1.DNSDefault:
		d = DNS{slices.Clone(host.Servers), slices.Clone(host.Searches), slices.Clone(host.Options)}
	default:
		d.Servers = slices.Clone(cluster.Servers)
		d.Searches = appendNew([]string{p.Namespace + ".svc." + cluster.Domain, "svc." + cluster.Domain, cluster.Domain}, host.Searches)
		d.Options = []string{"ndots:5"}
	}
	if c := p.Spec.DNSConfig; c != nil {
		d.Servers = appendNew(d.Servers, c.Nameservers)
		d.Searches = appendNew(d.Searches, c.Searches)
		for _, o := range c.Options {
			d.Options = setOption(d.Options, o)
		}
	}
	return d.within(lacks)
}

// within cuts the settings to what a resolv.conf holds, and adds to lacks what is left
// out.
func (d DNS) within(lacks []Lack) (DNS, []Lack) {
	if len(d.Servers) > maxServers {
		lacks = append(lacks, Lack{"DNSConfigForming", fmt.Sprintf(
			"a resolv.conf names at most %d servers: left out are %s", maxServers, strings.Join(d.Servers[maxServers:], ", "))})
		d.Servers = d.Servers[:maxServers]
	}
	n := min(len(d.Searches), maxSearches)
	for len(strings.Join(d.Searches[:n], " ")) > maxSearchChars {
		n--
	}
	if len(d.Searches) > n {
		lacks = append(lacks, Lack{"DNSConfigForming", fmt.Sprintf(
			"a resolv.conf searches at most %d domains, of %d characters in all: left out are %s", maxSearches, maxSearchChars, strings.Join(d.Searches[n:], ", "))})
		d.Searches = d.Searches[:n]
	}
	return d, lacks
}

// SearchesCluster tells whether a pod's search path is the cluster's and nothing
// more, with its ndots.
func SearchesCluster(p *v1.Pod) bool {
	if p.Spec.DNSPolicy != v1.DNSClusterFirst && p.Spec.DNSPolicy != v1.DNSClusterFirstWithHostNet && p.Spec.DNSPolicy != "" {
		return false
	}
	c := p.Spec.DNSConfig
	return c == nil || len(c.Searches) == 0 && !slices.ContainsFunc(c.Options, func(o v1.PodDNSConfigOption) bool { return o.Name == "ndots" })
}

func appendNew(to, from []string) []string {
	for _, s := range from {
		if !slices.Contains(to, s) {
			to = append(to, s)
		}
	}
	return to
}

func setOption(options []string, o v1.PodDNSConfigOption) []string {
	text := o.Name
	if o.Value != nil && *o.Value != "" {
		text += ":" + *o.Value
	}
	for i, old := range options {
		if name, _, _ := strings.Cut(old, ":"); name == o.Name {
			options[i] = text
			return options
		}
	}
	return append(options, text)
}

// String gives the file's content.
func (d DNS) String() string {
	var b strings.Builder
	if len(d.Searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(d.Searches, " "))
	}
	for _, s := range d.Servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(d.Options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(d.Options, " "))
	}
	return b.String()
}

// ParseResolvConf reads a resolv.conf; what it does not know it passes over.
func ParseResolvConf(text string) DNS {
	var d DNS
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0][0] == '#' || words[0][0] == ';' {
			continue
		}
		switch words[0] {
		case "nameserver":
			d.Servers = append(d.Servers, words[1])
		case "search":
			d.Searches = words[1:]
		case "options":
			d.Options = append(d.Options, words[1:]...)
		}
	}
	return d
}
