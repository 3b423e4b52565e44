package node

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	goos   = runtime.GOOS
	goarch = runtime.GOARCH
)

// Machine is what is measured of a machine.
type Machine struct {
	CPUs int
	// Memory and Disk in bytes; MemoryAvailable without what can be dropped.
	Memory, MemoryAvailable int64
	Disk, DiskAvailable     int64
	Inodes, InodesFree      int64
	PidsMax, PidsUsed       int64
	// Hugepages in bytes, by the size of a page, also where there are none.
	Hugepages map[int64]int64
}

// Measure looks at the machine; dir lies on the disk that pods write to.
func Measure(dir string) (Machine, error) {
	m := Machine{CPUs: runtime.NumCPU()}
	var err error
	if m.Memory, m.MemoryAvailable, err = memory(); err != nil {
		return m, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return m, fmt.Errorf("measure %s: %w", dir, err)
	}
	m.Disk, m.DiskAvailable = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	m.Inodes, m.InodesFree = int64(st.Files), int64(st.Ffree)
	m.PidsMax = readInt("/proc/sys/kernel/pid_max")
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.PidsUsed = int64(info.Procs)
	}
	m.Hugepages = hugepages("/sys/kernel/mm/hugepages")
	return m, nil
}

// hugepages reads how much memory is kept for each size of huge page.
func hugepages(root string) map[int64]int64 {
	out := map[int64]int64{}
	dirs, _ := filepath.Glob(filepath.Join(root, "hugepages-*kB"))
	for _, dir := range dirs {
		text := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(dir), "hugepages-"), "kB")
		kb, err := strconv.ParseInt(text, 10, 64)
		if err != nil || kb <= 0 {
			continue
		}
		out[kb<<10] = readInt(filepath.Join(dir, "nr_hugepages")) * kb << 10
	}
	return out
}

func readInt(path string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // "max" is none: 0
	return n
}

func memory() (total, available int64, err error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "MemTotal:":
			total = n << 10
		case "MemAvailable:":
			available = n << 10
		}
	}
	return total, available, nil
}

// Capacity turns a measurement into a Node's capacity.
func Capacity(m Machine, pods int64) v1.ResourceList {
	list := v1.ResourceList{
		v1.ResourceCPU:              *resource.NewQuantity(int64(m.CPUs), resource.DecimalSI),
		v1.ResourceMemory:           *resource.NewQuantity(m.Memory, resource.BinarySI),
		v1.ResourceEphemeralStorage: *resource.NewQuantity(m.Disk, resource.BinarySI),
		v1.ResourcePods:             *resource.NewQuantity(pods, resource.DecimalSI),
	}
	for size, bytes := range m.Hugepages {
		name := v1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String()
		list[v1.ResourceName(name)] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	return list
}

// Allocatable is the capacity without what is kept for the machine itself.
// Memory is without the huge pages, which count on their own.
func Allocatable(capacity, reserved v1.ResourceList) v1.ResourceList {
	out := capacity.DeepCopy()
	for name, r := range reserved {
		q, ok := out[name]
		if !ok {
			continue
		}
		q.Sub(r)
		if q.Sign() < 0 {
			q = *resource.NewQuantity(0, q.Format)
		}
		out[name] = q
	}
	memory := out[v1.ResourceMemory]
	for name, q := range capacity {
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			memory.Sub(q)
		}
	}
	if memory.Sign() < 0 {
		memory = *resource.NewQuantity(0, memory.Format)
	}
	out[v1.ResourceMemory] = memory
	return out
}

// Info names the machine's parts as Kubernetes does.
func Info(runtimeVersion, version string) v1.NodeSystemInfo {
	info := v1.NodeSystemInfo{
		Architecture: goarch, OperatingSystem: goos, ContainerRuntimeVersion: runtimeVersion,
		KubeletVersion: version, KubeProxyVersion: version,
		MachineID: firstLine("/etc/machine-id"), BootID: firstLine("/proc/sys/kernel/random/boot_id"),
		SystemUUID: strings.ToLower(firstLine("/sys/class/dmi/id/product_uuid")),
		OSImage:    osImage(),
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		info.KernelVersion = unix.ByteSliceToString(u.Release[:])
	}
	return info
}

func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}

func osImage() string {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return goos
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return goos
}

// Address finds the machine's own address: that from which a packet to server
// would go, else the first global one.
func Address(server string) (string, error) {
	if server != "" {
		if conn, err := net.Dial("udp", server); err == nil {
			defer conn.Close()
			if a, ok := conn.LocalAddr().(*net.UDPAddr); ok && !a.IP.IsUnspecified() && !a.IP.IsLoopback() {
				return a.IP.String(), nil
			}
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String(), nil
		}
	}
	return "127.0.0.1", nil
}

// Outside is the address by which this machine reaches all other networks, of like's
// family; empty where it reaches none. No packet is sent.
func Outside(like string) string {
	server := "192.0.2.1:9" // nobody's
	if strings.Contains(like, ":") {
		server = "[2001:db8::1]:9"
	}
	conn, err := net.Dial("udp", server)
	if err != nil {
		return ""
	}
	defer conn.Close()
	a, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok || !a.IP.IsGlobalUnicast() {
		return ""
	}
	return a.IP.String()
}

// Writable says whether a folder can be written to, for a clear word at start.
func Writable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("the agent's folder: %w", err)
	}
	f, err := os.CreateTemp(dir, ".probe")
	if err != nil {
		return fmt.Errorf("the agent's folder %s: %w", filepath.Clean(dir), err)
	}
	f.Close()
	return os.Remove(f.Name())
}
