package nodeagent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/nodeagent/image"
)

func TestThresholdsAreReadAsTheKubeletReadsThem(t *testing.T) {
	t.Parallel()
	got, err := ParseThresholds([]string{"memory.available<1.5Gi", " nodefs.available < 7.5% ", "imagefs.available<0%", "nodefs.inodesFree<100%", "pid.available<1k"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[Signal]Threshold{
		MemoryAvailable: {Quantity: 3 << 29}, NodeFSAvailable: {Share: 0.075}, ImageFSAvailable: {}, NodeFSInodesFree: {}, PIDAvailable: {Quantity: 1000},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "<", "memory.available", "memory<1", "memory.available<", "memory.available<-1Gi", "memory.available<0", "memory.available<-1%", "memory.available<NaN%", "memory.available<1%%"} {
		if got, err := ParseThresholds([]string{bad}); err == nil {
			t.Errorf("ParseThresholds(%q) = %v", bad, got)
		}
	}
}

func TestThresholdsThatAreLeftOutKeepTheirDefaults(t *testing.T) {
	t.Parallel()
	p := Pressure{Hard: map[Signal]Threshold{NodeFSAvailable: {}, MemoryAvailable: {Share: 0.9}}}
	p.defaults()
	m, images := ample(), image.Usage{Capacity: 1000, Available: 149, Inodes: 1000, InodesFree: 49}
	m.DiskAvailable, m.PidsUsed = 0, 901
	var got []string
	for _, s := range p.short(m, images) {
		got = append(got, string(s.signal)+": "+s.quantity(s.threshold))
	}
	want := []string{"memory.available: 7730941132", "imagefs.available: 150", "imagefs.inodesFree: 50", "pid.available: 100"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	none := Pressure{Hard: NoThresholds()}
	none.defaults()
	m.MemoryAvailable = 0
	if short := none.short(m, images); len(short) != 0 {
		t.Errorf("without thresholds %+v is short", short)
	}
}

// Whoever starts on a machine that is under pressure is told so at once.
func TestPressureIsToldOfWhenItBegins(t *testing.T) {
	t.Parallel()
	s := newStrained(t, Pressure{})
	said := s.hear()
	s.machine.Disk, s.machine.DiskAvailable = 100<<30, 8<<30
	for range 2 {
		if _, err := s.sizeUp(s.usage); err != nil {
			t.Fatal(err)
		}
	}
	want := `level=WARN msg="the node is short of ephemeral-storage: new pods are refused, running ones evicted" node=n1 signal=nodefs.available ` +
		`available="8.0 GiB (8.0%)" threshold="10.0 GiB (10.0%)" remedy="free space on the disk of ` + s.cfg.RootDir +
		", or start with a lower threshold: --eviction-hard 'nodefs.available<4.0%'\"\n"
	if diff := cmp.Diff(want, said.String()); diff != "" {
		t.Error(diff)
	}
	said.Reset()
	s.machine.DiskAvailable = 50 << 30
	s.pressure.diskAt = s.pressure.diskAt.Add(-holdOn)
	if _, err := s.sizeUp(s.usage); err != nil || !strings.Contains(said.String(), "out of pressure") {
		t.Errorf("after it ended: %v, said %q", err, said)
	}
}

func TestUnusedImagesGoBeforePods(t *testing.T) {
	t.Parallel()
	s := newStrained(t, Pressure{})
	s.add("pod", 0, "", 0)
	s.machine.DiskAvailable = 99
	s.images = []image.Image{{ID: "unused", Size: 100}}
	s.imageUse.See(s.images, nil, time.Now().Add(-time.Hour))
	s.gone = func() { s.machine.DiskAvailable = 199 }
	s.look(t.Context())
	if diff := cmp.Diff([]string{"unused"}, s.removed); diff != "" {
		t.Error(diff)
	}
	if got := s.evicted(); len(got) != 0 {
		t.Errorf("evicted %+v although an image did", got)
	}
	s.machine.DiskAvailable, s.images = 99, nil
	s.look(t.Context())
	if got := s.evicted(); len(got) != 1 {
		t.Errorf("evicted %+v with no image left, want the pod", got)
	}
}
