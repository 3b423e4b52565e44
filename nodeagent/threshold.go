package nodeagent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/node"
)

// Signal names what can run out, as the kubelet's --eviction-hard does: nodefs
// is the disk of pods' volumes and logs, imagefs that of images and of what
// containers write.
type Signal string

// The signals that are known.
const (
	MemoryAvailable   Signal = "memory.available"
	NodeFSAvailable   Signal = "nodefs.available"
	NodeFSInodesFree  Signal = "nodefs.inodesFree"
	ImageFSAvailable  Signal = "imagefs.available"
	ImageFSInodesFree Signal = "imagefs.inodesFree"
	PIDAvailable      Signal = "pid.available"
)

// Threshold is how much must be left: a number of bytes (or of inodes, process
// ids), or a share of the whole. The zero Threshold asks for nothing.
type Threshold struct {
	Quantity int64
	Share    float64
}

func (t Threshold) of(all int64) int64 {
	if t.Share > 0 {
		return int64(t.Share * float64(all))
	}
	return t.Quantity
}

// hardDefaults are the kubelet's, and one for process ids, for which it has none.
var hardDefaults = map[Signal]Threshold{
	MemoryAvailable: {Quantity: 100 << 20},
	NodeFSAvailable: {Share: 0.10}, NodeFSInodesFree: {Share: 0.05},
	ImageFSAvailable: {Share: 0.15}, ImageFSInodesFree: {Share: 0.05},
	PIDAvailable: {Share: 0.10},
}

// NoThresholds evicts nothing, however little is left.
func NoThresholds() map[Signal]Threshold {
	out := map[Signal]Threshold{}
	for signal := range hardDefaults {
		out[signal] = Threshold{}
	}
	return out
}

// ParseThresholds reads what the kubelet's --eviction-hard takes:
// "memory.available<100Mi", "nodefs.available<10%". Shares of 0% and of 100% are
// no threshold, as there.
func ParseThresholds(statements []string) (map[Signal]Threshold, error) {
	out := map[Signal]Threshold{}
	for _, s := range statements {
		name, value, ok := strings.Cut(s, "<")
		signal := Signal(strings.TrimSpace(name))
		if !ok {
			return nil, fmt.Errorf("%q: want SIGNAL<QUANTITY or SIGNAL<PERCENT%%, such as nodefs.available<5%%", s)
		}
		if _, known := hardDefaults[signal]; !known {
			return nil, fmt.Errorf("signal %q is unknown: use %s", signal, signalNames())
		}
		if _, twice := out[signal]; twice {
			return nil, fmt.Errorf("signal %s is given twice", signal)
		}
		t, err := parseThreshold(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("%s<%s: %w", signal, strings.TrimSpace(value), err)
		}
		out[signal] = t
	}
	return out, nil
}

func parseThreshold(text string) (Threshold, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return Threshold{}, errors.New("want 0% to 100%")
		}
		if percent == 100 {
			percent = 0
		}
		return Threshold{Share: percent / 100}, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return Threshold{}, errors.New("want a quantity such as 100Mi, or a share such as 10%")
	}
	if q.Sign() <= 0 {
		return Threshold{}, errors.New("want more than nothing; 0% is for no threshold")
	}
	return Threshold{Quantity: q.Value()}, nil
}

func signalNames() string {
	var names []string
	for _, signal := range slices.Sorted(maps.Keys(hardDefaults)) {
		names = append(names, string(signal))
	}
	return strings.Join(names, ", ")
}

// What pods are evicted for beside Kubernetes' resources, in the kubelet's
// words.
const (
	inodes v1.ResourceName = "inodes"
	pids   v1.ResourceName = "pids"
)

// shortage is a resource of which less is left than should be.
type shortage struct {
	signal                    Signal
	resource                  v1.ResourceName
	threshold, available, all int64
}

// short finds what is running out, what is reclaimed first in front: memory.
// What was not measured is not short.
func (p *Pressure) short(m node.Machine, images image.Usage) (found []shortage) {
	for _, s := range []shortage{
		{MemoryAvailable, v1.ResourceMemory, 0, m.MemoryAvailable, m.Memory},
		{NodeFSAvailable, v1.ResourceEphemeralStorage, 0, m.DiskAvailable, m.Disk},
		{ImageFSAvailable, v1.ResourceEphemeralStorage, 0, images.Available, images.Capacity},
		{NodeFSInodesFree, inodes, 0, m.InodesFree, m.Inodes},
		{ImageFSInodesFree, inodes, 0, images.InodesFree, images.Inodes},
		{PIDAvailable, pids, 0, m.PidsMax - m.PidsUsed, m.PidsMax},
	} {
		s.threshold = p.Hard[s.signal].of(s.all)
		if s.all > 0 && s.available < s.threshold { // a disk may count no inodes
			found = append(found, s)
		}
	}
	return found
}

func (s *shortage) ofDisk() bool {
	return s.resource == v1.ResourceEphemeralStorage || s.resource == inodes
}

// quantity writes a number of the resource's units.
func (s *shortage) quantity(n int64) string {
	if s.resource == inodes || s.resource == pids {
		return resource.NewQuantity(n, resource.DecimalSI).String()
	}
	return resource.NewQuantity(n, resource.BinarySI).String()
}

// figure writes a number and its share, to be read by people.
func (s *shortage) figure(n int64) string {
	percent := 100 * float64(n) / float64(s.all)
	if s.resource == inodes || s.resource == pids {
		return fmt.Sprintf("%d (%.1f%%)", n, percent)
	}
	return fmt.Sprintf("%.1f GiB (%.1f%%)", float64(n)/(1<<30), percent)
}

// remedy says what somebody can do about it.
func (s *shortage) remedy(dir string) string {
	what := map[v1.ResourceName]string{
		v1.ResourceMemory: "free memory", v1.ResourceEphemeralStorage: "free space on the disk of " + dir,
		inodes: "remove files from the disk of " + dir, pids: "end processes",
	}[s.resource]
	return fmt.Sprintf("%s, or start with a lower threshold: --eviction-hard '%s<%.1f%%'", what, s.signal, s.lower())
}

// lower is a percentage that half of what is available would meet.
func (s *shortage) lower() float64 { return 50 * float64(s.available) / float64(s.all) }

// refused says which new pods are turned away.
func (s *shortage) refused() string {
	if s.resource == v1.ResourceMemory {
		return "pods without requests are refused, running ones evicted"
	}
	return "new pods are refused, running ones evicted"
}
