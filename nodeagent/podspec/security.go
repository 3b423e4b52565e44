package podspec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Security merges the pod's and the container's security context with the
// image's user. seccompRoot is where Localhost profiles lie.
func Security(p *v1.Pod, c *v1.Container, imageUser, seccompRoot string) (runtime.Security, error) {
	ps, cs := p.Spec.SecurityContext, c.SecurityContext
	if ps == nil {
		ps = &v1.PodSecurityContext{}
	}
	if cs == nil {
		cs = &v1.SecurityContext{}
	}
	s := runtime.Security{
		RunAsUser:       or(cs.RunAsUser, ps.RunAsUser),
		RunAsGroup:      or(cs.RunAsGroup, ps.RunAsGroup),
		Username:        imageUser,
		Privileged:      is(cs.Privileged),
		ReadOnlyRootFS:  is(cs.ReadOnlyRootFilesystem),
		NoNewPrivileges: cs.AllowPrivilegeEscalation != nil && !*cs.AllowPrivilegeEscalation,
		Unmasked:        cs.ProcMount != nil && *cs.ProcMount == v1.UnmaskedProcMount,
		StrictGroups:    ps.SupplementalGroupsPolicy != nil && *ps.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict,
	}
	s.SupplementalGroups = slices.Clone(ps.SupplementalGroups)
	if ps.FSGroup != nil && !slices.Contains(s.SupplementalGroups, *ps.FSGroup) {
		s.SupplementalGroups = append(s.SupplementalGroups, *ps.FSGroup)
	}
	if cs.Capabilities != nil {
		s.AddCapabilities = capabilities(cs.Capabilities.Add)
		s.DropCapabilities = capabilities(cs.Capabilities.Drop)
	}
	if err := confine(&s, p, c, or(cs.SeccompProfile, ps.SeccompProfile), seccompRoot); err != nil {
		return s, err
	}
	if nonRoot := or(cs.RunAsNonRoot, ps.RunAsNonRoot); is(nonRoot) {
		if err := verifyNonRoot(c.Name, s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// confine sets the filters of a container.
func confine(s *runtime.Security, p *v1.Pod, c *v1.Container, profile *v1.SeccompProfile, seccompRoot string) error {
	var err error
	if s.Seccomp, err = Seccomp(profile, seccompRoot); err != nil {
		return err
	}
	if s.Privileged {
		s.Seccomp = runtime.Seccomp{Type: runtime.SeccompUnconfined}
	}
	s.AppArmor, err = appArmor(AppArmorProfile(p, c), s.Privileged)
	return err
}

func verifyNonRoot(name string, s runtime.Security) error {
	if s.RunAsUser != nil {
		if *s.RunAsUser == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy (container: %s)", name)
		}
		return nil
	}
	user, _, _ := strings.Cut(s.Username, ":")
	if user == "" {
		return fmt.Errorf("container has runAsNonRoot and image will run as root (container: %s)", name)
	}
	uid, err := strconv.ParseInt(user, 10, 64)
	if err != nil {
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (container: %s)", user, name)
	}
	if uid == 0 {
		return fmt.Errorf("container has runAsNonRoot and image will run as root (container: %s)", name)
	}
	return nil
}

func capabilities(in []v1.Capability) []string {
	var out []string
	for _, c := range in {
		out = append(out, strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_"))
	}
	return out
}

// Seccomp translates a profile; nil is Unconfined. A Localhost profile must lie
// below root.
func Seccomp(p *v1.SeccompProfile, root string) (runtime.Seccomp, error) {
	if p == nil || p.Type == v1.SeccompProfileTypeUnconfined {
		return runtime.Seccomp{Type: runtime.SeccompUnconfined}, nil
	}
	if p.Type == v1.SeccompProfileTypeRuntimeDefault {
		return runtime.Seccomp{Type: runtime.SeccompRuntimeDefault}, nil
	}
	if p.LocalhostProfile == nil || !filepath.IsLocal(*p.LocalhostProfile) {
		return runtime.Seccomp{}, fmt.Errorf("seccompProfile: localhostProfile must be a path below %s", root)
	}
	return runtime.Seccomp{Type: runtime.SeccompLocalhost, Path: filepath.Join(root, *p.LocalhostProfile)}, nil
}

// Sysctls gives a pod's kernel parameters. Those outside the safe set must be
// in allowed, whose entries may end in *.
func Sysctls(p *v1.Pod, allowed []string) (map[string]string, error) {
	if p.Spec.SecurityContext == nil || len(p.Spec.SecurityContext.Sysctls) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, s := range p.Spec.SecurityContext.Sysctls {
		name := strings.ReplaceAll(s.Name, "/", ".")
		if !slices.ContainsFunc(append(safeSysctls, allowed...), func(a string) bool {
			prefix, wild := strings.CutSuffix(a, "*")
			return name == a || wild && strings.HasPrefix(name, prefix)
		}) {
			return nil, fmt.Errorf("forbidden sysctl: %q not allowlisted", s.Name)
		}
		out[name] = s.Value
	}
	return out, nil
}

var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

func or[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func is(b *bool) bool { return b != nil && *b }
