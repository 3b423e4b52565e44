package nodeagent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/berth-dev/berth/nodeagent/announce"
	"github.com/berth-dev/berth/nodeagent/catalog"
	"github.com/berth-dev/berth/nodeagent/cgroup"
	"github.com/berth-dev/berth/nodeagent/checkpoint"
	"github.com/berth-dev/berth/nodeagent/dns"
	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/ingress"
	"github.com/berth-dev/berth/nodeagent/isolation"
	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/node"
	"github.com/berth-dev/berth/nodeagent/objects"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/probe"
	"github.com/berth-dev/berth/nodeagent/proxy"
	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/serve"
	"github.com/berth-dev/berth/nodeagent/static"
	"github.com/berth-dev/berth/nodeagent/status"
	"github.com/berth-dev/berth/nodeagent/userns"
	"github.com/berth-dev/berth/nodeagent/volume"
	"github.com/berth-dev/berth/nodeagent/worker"
)

// Config is what an agent needs. REST or Client, NodeName, RootDir, Runtime,
// Network and Images are required.
type Config struct {
	// REST reaches the API; Client, if set, is used instead (tests).
	REST   *rest.Config
	Client kubernetes.Interface

	NodeName string
	// RootDir holds pods, logs and checkpoints, and survives restarts.
	RootDir string
	Runtime runtime.Runtime
	Network network.Network
	Images  image.Store
	// Keyring has the machine's own credentials for registries; nil is none.
	Keyring image.Keyring
	Log     *slog.Logger

	// PodCIDR is reported in the Node where the host gave none.
	PodCIDR string
	// Address is the machine's own; empty finds it by the way to the API.
	Address string
	// Outside finds the address by which other machines reach this one, of the same
	// family as Address, which only this machine and its pods reach; nil: they reach
	// Address.
	Outside func(like string) string
	// Labels and Taints for the Node when it is made.
	Labels map[string]string
	Taints []v1.Taint
	// Lease is how long the node's Lease holds; it is renewed four times in
	// that. 40 s unless set.
	Lease time.Duration
	// MaxPods is 110 unless set.
	MaxPods int64
	// Reserved is kept from pods for the machine itself.
	Reserved v1.ResourceList
	// Version is reported as kubeletVersion.
	Version string

	// ListenAddr, such as ":10250", serves the host; empty serves nobody.
	ListenAddr string
	// Certificate of the server, asked at each handshake; ClientCA signs the
	// host's, whose common name is in Clients (berth-host).
	Certificate func() (*tls.Certificate, error)
	ClientCA    *x509.CertPool
	Clients     []string

	// Cgroups, Mounter: nil is none, for machines without root.
	Cgroups worker.Cgroups
	Mounter volume.Mounter
	// CgroupRoot is prepended to all cgroup paths.
	CgroupRoot string
	// DNS of the cluster.
	DNS podspec.ClusterDNS
	// Forward makes services answer on this machine; nil leaves that to others.
	Forward proxy.Kernel
	// Isolate makes network policies hold on this machine; nil leaves that to others.
	Isolate isolation.Kernel
	// Peers streams the cluster's pods, for policies; unless set, the host is asked.
	Peers func(ctx context.Context) (io.ReadCloser, error)
	// AnswerAt are addresses at which the agent itself answers DNS for the pods;
	// they take the place of DNS.Servers if they can be had.
	AnswerAt []netip.Addr
	// ClusterRanges are the addresses of pods in the whole cluster.
	ClusterRanges []netip.Prefix
	// Ingress is where the machine answers for Ingresses; its zero value is nowhere.
	Ingress Ingress
	// StaticPods is a folder of manifests of pods that run whatever the API says; empty
	// is none.
	StaticPods string
	// Sysctls that pods may set beyond the safe ones.
	Sysctls []string
	// SeccompRoot holds Localhost profiles; RootDir/seccomp unless set.
	SeccompRoot string
	// LogMaxBytes (10 MiB) and LogMaxFiles (5) rotate containers' logs.
	LogMaxBytes int64
	LogMaxFiles int
	// Pressure are the limits at which pods are evicted and images collected.
	Pressure Pressure
}

// Agent runs one machine's pods. It is large because it is the one place where the
// machine's parts are put together: each file is one of the loops that Run starts.
type Agent struct {
	cfg     Config
	client  kubernetes.Interface
	log     *slog.Logger
	address string
	port    int32

	catalog   *catalog.Catalog
	proxy     *proxy.Proxy         // nil where others make services answer
	announcer *announce.Announcer  // nil, too
	isolated  *isolation.Isolation // nil where others make policies hold
	names     *dns.Server          // nil: others answer
	ingress   *ingress.Server      // nil: this machine does not
	objects   *objects.Objects
	volumes   *volume.Volumes
	prober    *probe.Prober
	status    *status.Writer
	static    *static.Source
	keep      *checkpoint.Dir
	pulls     *image.Pulls
	ids       *userns.Ranges
	pool      *worker.Pool
	events    record.EventBroadcaster
	recorder  record.EventRecorder
	listener  net.Listener

	started  time.Time
	keeper   *node.Keeper
	machine  node.Machine
	version  runtime.Version
	pressure pressure
	// measure looks at the machine; tests say what it finds.
	measure func(dir string) (node.Machine, error)
	// imageUse and imagesAt belong to tend's goroutine.
	imageUse image.Uses
	imagesAt time.Time
	// diskNext is when what a pod has on the disk is measured again, by its UID;
	// tend's, too.
	diskNext map[string]time.Time
	// weighed is the milli-CPU by which the classes' cgroups were weighed last;
	// tend's, too.
	weighed int64
	// closing: a shutdown ends the pods.
	closing atomic.Bool
	// self is the Node as the API last had it.
	self atomic.Pointer[v1.Node]
}

// New checks the configuration, opens the folder and the port, and finds what
// ran before. Nothing works before Run.
func New(cfg Config) (*Agent, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, log: cfg.Log.With("node", cfg.NodeName), client: cfg.Client, started: time.Now(), measure: node.Measure, weighed: -1}
	if a.client == nil {
		c := rest.CopyConfig(cfg.REST)
		c.ContentType, c.AcceptContentTypes = apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeProtobuf+",application/json"
		if c.QPS == 0 {
			c.QPS, c.Burst = 50, 100
		}
		var err error
		if a.client, err = kubernetes.NewForConfig(c); err != nil {
			return nil, fmt.Errorf("reach the API: %w", err)
		}
	}
	if err := node.Writable(cfg.RootDir); err != nil {
		return nil, err
	}
	if err := a.find(); err != nil {
		return nil, err
	}
	return a, a.build()
}

func (c *Config) check() error {
	for name, missing := range map[string]bool{
		"NodeName": c.NodeName == "", "RootDir": c.RootDir == "", "Runtime": c.Runtime == nil, "Network": c.Network == nil,
		"Images": c.Images == nil, "REST": c.REST == nil && c.Client == nil,
	} {
		if missing {
			return fmt.Errorf("node agent: %s is missing", name)
		}
	}
	if c.ListenAddr != "" && (c.Certificate == nil || c.ClientCA == nil) {
		return errors.New("node agent: ListenAddr needs Certificate and ClientCA")
	}
	c.defaults()
	return nil
}

// defaults fills in what was not said.
func (c *Config) defaults() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MaxPods == 0 {
		c.MaxPods = 110
	}
	if c.Version == "" {
		c.Version = "v1.36.3"
	}
	if len(c.Clients) == 0 {
		c.Clients = []string{"berth-host"}
	}
	if c.Cgroups == nil {
		c.Cgroups = cgroup.None{}
	}
	if c.Mounter == nil {
		c.Mounter = volume.Plain{}
	}
	if c.SeccompRoot == "" {
		c.SeccompRoot = filepath.Join(c.RootDir, "seccomp")
	}
	if c.LogMaxBytes == 0 {
		c.LogMaxBytes, c.LogMaxFiles = 10<<20, 5
	}
	if c.DNS.Domain == "" {
		c.DNS.Domain = "cluster.local"
	}
	c.Pressure.defaults()
}

// find measures the machine and opens the port.
func (a *Agent) find() error {
	var err error
	if a.machine, err = node.Measure(a.cfg.RootDir); err != nil {
		return err
	}
	if a.address = a.cfg.Address; a.address == "" {
		server := ""
		if a.cfg.REST != nil {
			if u, err := url.Parse(a.cfg.REST.Host); err == nil {
				server = u.Host
			}
		}
		if a.address, err = node.Address(server); err != nil {
			return fmt.Errorf("find this machine's address: %w", err)
		}
	}
	if a.cfg.ListenAddr == "" {
		return nil
	}
	if a.listener, err = net.Listen("tcp", a.cfg.ListenAddr); err != nil {
		return fmt.Errorf("listen for the host: %w", err)
	}
	_, port, err := net.SplitHostPort(a.listener.Addr().String())
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(port, 10, 32)
	a.port = int32(n)
	return err
}

// Addr is where the host reaches the agent; empty if it does not serve.
func (a *Agent) Addr() string {
	if a.listener == nil {
		return ""
	}
	return a.listener.Addr().String()
}

// Catalog has the services that the agent follows while it runs.
func (a *Agent) Catalog() *catalog.Catalog { return a.catalog }

// build puts the parts together.
func (a *Agent) build() error {
	var err error
	if a.keep, err = checkpoint.Open(filepath.Join(a.cfg.RootDir, "checkpoints")); err != nil {
		return err
	}
	pods := filepath.Join(a.cfg.RootDir, "pods")
	if a.ids, err = userns.Open(pods); err != nil {
		a.log.Error("some pods' ids are not known, and may be given to others too", "err", err)
	}
	if a.pulls, err = image.OpenPulls(filepath.Join(a.cfg.RootDir, "pulls")); err != nil {
		return err
	}
	a.events = record.NewBroadcaster()
	recorder := a.events.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet", Host: a.cfg.NodeName})
	a.recorder = recorder
	a.catalog = catalog.New(a.client)
	if err := a.answerNames(); err != nil {
		return err
	}
	a.objects = objects.New(a.client, a.catalog)
	a.answerIngresses()
	a.keeper = &node.Keeper{Client: a.client, Name: a.cfg.NodeName, Describe: a.describe, Lease: a.cfg.Lease, Own: []v1.NodeConditionType{ingressServing}, Log: a.log}
	if a.cfg.Forward != nil {
		cfg := proxy.Config{Catalog: a.catalog, Kernel: a.cfg.Forward, Node: a.place, Ports: a.portHolders, Recorder: recorder, Log: a.log}
		if a.names != nil {
			cfg.Own = a.cfg.AnswerAt
		}
		a.proxy = proxy.New(cfg)
		a.announcer = announce.New(announce.Config{Catalog: a.catalog, Node: a.cfg.NodeName, Own: a.own(), Held: a.keeper.Held, Log: a.log})
	}
	a.isolate()
	a.volumes = volume.New(pods, a.objects, a.cfg.Mounter, a.labels)
	a.prober = probe.New(a.cfg.Runtime, recorder)
	a.status = status.New(a.client.CoreV1(), a.log)
	a.static = static.New(static.Config{
		Dir: a.cfg.StaticPods, Node: a.cfg.NodeName, Pods: a.client.CoreV1(), Status: a.status,
		Set: a.run, Delete: a.delete, Running: a.staticPods, Self: a.self.Load, Log: a.log,
	})
	host := a.host()
	a.pool = worker.NewPool(worker.Deps{
		Runtime: a.cfg.Runtime, Network: a.cfg.Network, Images: a.cfg.Images, Pulls: a.pulls, Keyring: a.cfg.Keyring, Volumes: a.volumes, Cgroups: a.cfg.Cgroups,
		Prober: a.prober, Objects: a.objects, Handler: a.objects.Handler, Services: services{a.catalog, a.proxy}, Status: a.static, Keep: a.keep, Recorder: recorder, Log: a.log,
		RootDir: a.cfg.RootDir, CgroupRoot: a.cfg.CgroupRoot, Host: host, IDs: a.ids, UserNamespaces: a.version.UserNamespaces, Memory: a.machine.Memory,
		PageSizes: slices.Sorted(maps.Keys(a.machine.Hugepages)), Allocatable: a.allocatable(),
		DNS: a.cfg.DNS, Sysctls: a.cfg.Sysctls, SeccompRoot: a.cfg.SeccompRoot,
		LogMaxBytes: a.cfg.LogMaxBytes, LogMaxFiles: a.cfg.LogMaxFiles,
	})
	records, err := a.keep.Load()
	if err != nil {
		a.log.Error("some pods' records are lost; the pods are found again by their labels", "err", err)
	}
	a.pool.Adopt(records)
	a.adoptIsolated()
	return nil
}

func (a *Agent) host() pod.Host {
	h := pod.Host{IPs: []string{a.address}, Runtime: "containerd"}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if v, err := a.cfg.Runtime.Version(ctx); err == nil {
		a.version, h.Runtime, h.RecursiveReadOnly = v, v.Name, v.RecursiveReadOnly
	}
	return h
}

func (a *Agent) allocatable() v1.ResourceList {
	return node.Allocatable(node.Capacity(a.machine, a.cfg.MaxPods), a.reserved())
}

// reserved is what pods may not have: what is kept for the machine itself, and, as
// by the kubelet, what must be left of it before pods are evicted.
func (a *Agent) reserved() v1.ResourceList {
	out := v1.ResourceList{}
	maps.Copy(out, a.cfg.Reserved)
	for name, left := range map[v1.ResourceName]int64{
		v1.ResourceMemory:           a.cfg.Pressure.Hard[MemoryAvailable].of(a.machine.Memory),
		v1.ResourceEphemeralStorage: a.cfg.Pressure.Hard[NodeFSAvailable].of(a.machine.Disk),
	} {
		sum := out[name].DeepCopy()
		sum.Add(*resource.NewQuantity(left, resource.BinarySI))
		out[name] = sum
	}
	return out
}

// Run works until ctx ends. The pods go on, unless Shutdown ended them before.
func (a *Agent) Run(ctx context.Context) error {
	defer a.events.Shutdown()
	a.events.StartRecordingToSink(&corev1.EventSinkImpl{Interface: a.client.CoreV1().Events("")})
	g, ctx := errgroup.WithContext(ctx)
	loop := func(run func(context.Context) error) {
		g.Go(func() error {
			err := run(ctx)
			if ctx.Err() != nil && (errors.Is(err, context.Canceled) || err == nil) {
				return nil
			}
			return err
		})
	}
	if _, err := a.sizeUp(a.filesystem(ctx)); err != nil { // before the first pod comes
		return err
	}
	a.weighClasses()
	for _, run := range []func(context.Context) error{
		a.catalog.Run, a.prober.Run, a.status.Run, a.pool.Run, a.keeper.Run, a.static.Run, a.follow, a.tend, a.refresh,
	} {
		loop(run)
	}
	if a.proxy != nil {
		loop(a.proxy.Run)
		loop(a.announcer.Run)
	}
	if a.isolated != nil {
		loop(a.isolated.Run)
	}
	if a.names != nil {
		loop(a.names.Run)
	}
	if a.ingress != nil {
		loop(a.ingress.Run)
		loop(a.followIngresses)
	}
	if a.listener != nil {
		loop(func(ctx context.Context) error { return a.server().Serve(ctx, a.listener) })
	}
	a.log.Info("node agent runs", "root", a.cfg.RootDir, "runtime", a.version.Name+" "+a.version.Version)
	err := g.Wait()
	if a.closing.Load() { // the workers have said their last
		err = errors.Join(err, a.flush(context.WithoutCancel(ctx)))
	}
	return err
}

func (a *Agent) server() *serve.Server {
	return serve.New(serve.Config{
		Pods: a.pool, Runtime: a.cfg.Runtime, Node: a.nodeStats, Certificate: a.cfg.Certificate,
		ClientCA: a.cfg.ClientCA, Clients: a.cfg.Clients, Metrics: a.metrics(), Log: a.log,
	})
}

func (a *Agent) nodeStats(ctx context.Context) serve.NodeStats {
	s := serve.NodeStats{Name: a.cfg.NodeName, StartTime: a.started}
	m, err := node.Measure(a.cfg.RootDir)
	if err != nil {
		return s
	}
	s.Memory, s.WorkingSet = uint64(m.Memory-m.MemoryAvailable), uint64(m.Memory-m.MemoryAvailable)
	s.FSCapacity, s.FSAvailable = uint64(m.Disk), uint64(m.DiskAvailable)
	s.CPUNanos = cpuNanos()
	s.MemoryCapacity, s.CPUs = uint64(m.Memory), m.CPUs
	s.Inodes, s.InodesFree = uint64(m.Inodes), uint64(m.InodesFree)
	s.Processes, s.MaxProcesses = m.PidsUsed, m.PidsMax
	if s.Images, err = a.cfg.Images.Filesystem(ctx); err != nil {
		a.log.Warn("measure the images' disk", "err", err)
	}
	return s
}

// cpuNanos is the CPU time that the machine spent, idle time excluded.
func cpuNanos() uint64 {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(data), "\n")
	var sum uint64
	for i, word := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // its name, idle, iowait, guests
			continue
		}
		n, _ := strconv.ParseUint(word, 10, 64)
		sum += n * 10_000_000 // ticks of 10 ms
	}
	return sum
}
