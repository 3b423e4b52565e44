package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	defaultprofile "github.com/containerd/containerd/v2/contrib/apparmor"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/apparmor"
	"github.com/containerd/containerd/v2/pkg/cap"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// security gives the options of a container's security context. The seccomp
// filter comes last: what it permits depends on the capabilities.
func security(sec runtime.Security) []oci.SpecOpts {
	if sec.Privileged {
		return []oci.SpecOpts{oci.WithPrivileged, oci.WithNewPrivileges, oci.WithHostDevices, oci.WithAllDevicesAllowed, withAppArmor(sec.AppArmor)}
	}
	opts := []oci.SpecOpts{withCapabilities(sec), withAppArmor(sec.AppArmor)}
	if sec.NoNewPrivileges {
		opts = append(opts, oci.WithNoNewPrivileges)
	} else {
		opts = append(opts, oci.WithNewPrivileges)
	}
	if sec.Unmasked {
		opts = append(opts, oci.WithMaskedPaths(nil), oci.WithReadonlyPaths(nil))
	}
	switch sec.Seccomp.Type {
	case runtime.SeccompRuntimeDefault:
		opts = append(opts, seccomp.WithDefaultProfile())
	case runtime.SeccompLocalhost:
		opts = append(opts, seccomp.WithProfile(sec.Seccomp.Path))
	}
	return opts
}

// appArmorDefault is the name under which the default profile is loaded: that of
// other runtimes, which have the same one.
const appArmorDefault = "cri-containerd.apparmor.d"

// withAppArmor confines a container by a profile, where the kernel can. Pods that
// ask for one elsewhere were refused before.
func withAppArmor(a runtime.AppArmor) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, info *containers.Container, s *oci.Spec) error {
		if !apparmor.HostSupports() {
			if a.Type == runtime.AppArmorLocalhost || a.Type == runtime.AppArmorRuntimeDefault {
				return errors.New("this machine's kernel has no AppArmor, by which the container is to be confined")
			}
			return nil
		}
		switch a.Type {
		case runtime.AppArmorUnconfined:
			return nil
		case runtime.AppArmorLocalhost:
			return oci.WithApparmorProfile(a.Profile)(ctx, c, info, s)
		}
		return defaultprofile.WithDefaultProfile(appArmorDefault)(ctx, c, info, s)
	}
}

// withCapabilities adds to and drops from the default set. A name wins over
// ALL on the other side.
func withCapabilities(sec runtime.Security) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, info *containers.Container, s *oci.Spec) error {
		own, err := cap.Current()
		if err != nil {
			return fmt.Errorf("read own capabilities: %w", err)
		}
		want, err := capabilities(s.Process.Capabilities.Bounding, own, sec.AddCapabilities, sec.DropCapabilities)
		if err != nil {
			return err
		}
		return oci.WithCapabilities(want)(ctx, c, info, s)
	}
}

func capabilities(defaults, own, add, drop []string) ([]string, error) {
	set := defaults
	for _, name := range drop {
		if strings.EqualFold(name, "ALL") {
			set = nil
		}
	}
	for _, name := range add {
		if strings.EqualFold(name, "ALL") {
			set = own
		}
	}
	set = slices.Clone(set)
	for _, name := range drop {
		full, err := capability(name)
		if err != nil {
			return nil, err
		}
		set = slices.DeleteFunc(set, func(had string) bool { return had == full })
	}
	for _, name := range add {
		full, err := capability(name)
		if err != nil {
			return nil, err
		}
		if full != "" && !slices.Contains(set, full) {
			set = append(set, full)
		}
	}
	return set, nil
}

// capability gives the kernel's name; empty for ALL.
func capability(name string) (string, error) {
	upper := strings.ToUpper(name)
	if upper == "ALL" {
		return "", nil
	}
	if !strings.HasPrefix(upper, "CAP_") {
		upper = "CAP_" + upper
	}
	if !slices.Contains(cap.Known(), upper) {
		return "", fmt.Errorf("unknown capability %q", name)
	}
	return upper, nil
}

// withUser resolves user and groups in the container's own files.
func withUser(sec runtime.Security) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, info *containers.Container, s *oci.Spec) error {
		user := sec.Username
		if sec.RunAsUser != nil {
			user = strconv.FormatInt(*sec.RunAsUser, 10)
		}
		if user != "" {
			if err := oci.WithUser(user)(ctx, c, info, s); err != nil {
				return fmt.Errorf("user %q: %w", user, err)
			}
		}
		gid := s.Process.User.GID
		if sec.RunAsGroup != nil {
			gid = uint32(*sec.RunAsGroup)
		}
		s.Process.User.GID = gid
		var groups []uint32
		if !sec.StrictGroups {
			name, _, _ := strings.Cut(user, ":")
			if name == "" {
				name = "0"
			}
			if err := oci.WithAdditionalGIDs(name)(ctx, c, info, s); err != nil {
				return fmt.Errorf("groups of %q: %w", name, err)
			}
			groups = s.Process.User.AdditionalGids
		}
		for _, g := range append([]int64{int64(gid)}, sec.SupplementalGroups...) {
			if !slices.Contains(groups, uint32(g)) {
				groups = append(groups, uint32(g))
			}
		}
		s.Process.User.AdditionalGids = groups
		return nil
	}
}

// withOOMScore sets the score, as far down as this machine permits.
func withOOMScore(score int) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		score = clampOOMScore(score, ownOOMScore(), mayLowerOOMScore())
		s.Process.OOMScoreAdj = &score
		return nil
	}
}

// clampOOMScore: a process without CAP_SYS_RESOURCE can not be given less than
// its parent has.
func clampOOMScore(want, own int, mayLower bool) int {
	if !mayLower && want < own {
		want = own
	}
	return min(max(want, -1000), 1000)
}

func ownOOMScore() int {
	b, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return n
}

func mayLowerOOMScore() bool {
	own, err := cap.Current()
	return err == nil && slices.Contains(own, "CAP_SYS_RESOURCE")
}
