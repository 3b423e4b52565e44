package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-spec/specs-go/features"
	"golang.org/x/sys/unix"
)

// featureSet is what not every runc or kernel has.
type featureSet struct {
	// userNamespaces, and idmapped mounts.
	userNamespaces bool
	// recursiveReadOnly: mounts may be so.
	recursiveReadOnly bool
}

// featuresOf asks runc.
func featuresOf(ctx context.Context, runc string) (featureSet, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, runc, "features").Output()
	if err != nil {
		return featureSet{}, fmt.Errorf("ask runc for its features: %w", err)
	}
	var f features.Features
	if err := json.Unmarshal(out, &f); err != nil {
		return featureSet{}, fmt.Errorf("ask runc for its features: %w", err)
	}
	return featureSet{
		userNamespaces:    userNamespacesOf(f),
		recursiveReadOnly: slices.Contains(f.MountOptions, "rro") && hasMountSetattr(),
	}, nil
}

func userNamespacesOf(f features.Features) bool {
	l := f.Linux
	if l == nil || l.MountExtensions == nil || l.MountExtensions.IDMap == nil || l.MountExtensions.IDMap.Enabled == nil {
		return false
	}
	return *l.MountExtensions.IDMap.Enabled && slices.Contains(l.Namespaces, string(specs.UserNamespace))
}

// hasMountSetattr says whether the kernel can change mounts recursively, as from
// 5.12 on. To change nothing is always permitted.
func hasMountSetattr() bool {
	return !errors.Is(unix.MountSetattr(-1, "", 0, &unix.MountAttr{}), unix.ENOSYS)
}
