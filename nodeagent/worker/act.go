package worker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/userns"
)

// act carries out one action over a copy of the record.
func (w *worker) act(ctx context.Context, a pod.Action, r *pod.Record) outcome {
	switch a.Kind {
	case pod.SetUp:
		return w.setUp(ctx, r)
	case pod.StartSandbox:
		return w.startSandbox(ctx, r)
	case pod.ResetSandbox:
		return w.resetSandbox(ctx, r)
	case pod.StartContainer:
		return w.startContainer(ctx, r, a.Container)
	case pod.StopContainer:
		return w.stopContainer(ctx, r, a)
	case pod.Resize:
		return w.resize(ctx, r)
	case pod.StopAll:
		return w.stopAll(ctx, r)
	case pod.TearDown:
		return w.tearDown(ctx, r)
	case pod.Finish:
		return w.finish(ctx, r)
	}
	return failed(fmt.Errorf("unknown action %q", a.Kind))
}

func failed(err error) outcome {
	return func(r *pod.Record, now time.Time) { r.Failed(err, now) }
}

func (w *worker) event(r *pod.Record, kind, reason, format string, args ...any) {
	w.Recorder.Eventf(r.Pod, kind, reason, format, args...)
}

func (w *worker) containerEvent(r *pod.Record, name, kind, reason, format string, args ...any) {
	w.Recorder.Eventf(containerRef(r, name), kind, reason, format, args...)
}

// facts are what the pod's own environment may ask about.
func (w *worker) facts(r *pod.Record) podspec.Facts {
	f := podspec.Facts{HostIPs: w.Host.IPs, Allocatable: w.Allocatable, EnvFile: func(volume, path, key string) (string, error) {
		return w.Volumes.EnvFile(r.Pod, volume, path, key)
	}}
	if r.Pod.Spec.HostNetwork {
		f.PodIPs = w.Host.IPs
		return f
	}
	for _, ip := range r.Sandbox.IPs {
		f.PodIPs = append(f.PodIPs, ip.String())
	}
	return f
}

func (w *worker) setUp(ctx context.Context, r *pod.Record) outcome {
	r.Pod = r.Holds()
	if _, err := podspec.Sysctls(r.Pod, w.Sysctls); err != nil {
		return func(rec *pod.Record, now time.Time) {
			rec.Rejected = &pod.Verdict{Reason: "SysctlForbidden", Message: err.Error()}
		}
	}
	if err := os.MkdirAll(w.podDir(), 0o750); err != nil {
		return failed(err)
	}
	if err := w.Cgroups.Ensure(podspec.CgroupParent(w.CgroupRoot, r.Pod), w.podLimits(r.Pod)); err != nil {
		w.event(r, v1.EventTypeWarning, "FailedCreatePodContainer", "unable to ensure pod cgroup: %v", err)
		return failed(err)
	}
	if err := w.Volumes.SetUp(podspec.Anew(ctx), r.Pod, w.facts(r)); err != nil {
		if ctx.Err() == nil {
			w.event(r, v1.EventTypeWarning, "FailedMount", "%v", err)
		}
		return failed(err)
	}
	return func(rec *pod.Record, now time.Time) { rec.DidSetUp() }
}

// NetworkID names the attachment of one sandbox.
func NetworkID(uid string, attempt uint32) string { return fmt.Sprintf("%s-%d", uid, attempt) }

func (w *worker) startSandbox(ctx context.Context, r *pod.Record) outcome {
	var id string
	var ips []netip.Addr
	err := w.inTurn(ctx, func() (err error) {
		id, ips, err = w.sandbox(ctx, r)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			w.event(r, v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
		}
		return failed(err)
	}
	return func(r *pod.Record, now time.Time) { r.DidStartSandbox(id, ips) }
}

func (w *worker) sandbox(ctx context.Context, r *pod.Record) (string, []netip.Addr, error) {
	p := r.Pod
	handler, err := w.handler(ctx, p)
	if err != nil {
		return "", nil, err
	}
	ids, err := w.ids(p)
	if err != nil {
		return "", nil, err
	}
	var attached network.Attachment
	if !p.Spec.HostNetwork {
		connect := w.attachment(r)
		connect.IDs = ids
		if connect.Ingress, connect.Egress, err = podspec.Bandwidth(p); err != nil {
			return "", nil, fmt.Errorf("network: %w", err)
		}
		err = within(ctx, func(ctx context.Context) error {
			attached, err = w.Network.Add(ctx, connect)
			return err
		})
		if err != nil {
			return "", nil, fmt.Errorf("network: %w", err)
		}
	}
	kernel, fqdn, err := podspec.Names(p, w.DNS.Domain)
	if err != nil {
		return "", nil, err
	}
	if err := w.writeEtc(r, attached.IPs, kernel, fqdn); err != nil {
		return "", nil, err
	}
	cfg, err := w.sandboxConfig(r, attached.NetNS, kernel)
	if err != nil {
		return "", nil, err
	}
	cfg.Handler = handler
	cfg.IDs = ids
	id := ""
	err = within(ctx, func(ctx context.Context) error {
		id, err = w.Runtime.RunSandbox(ctx, cfg)
		return err
	})
	return id, attached.IPs, err
}

// handler is the name of the pod's runtime, empty for the one of all pods.
func (w *worker) handler(ctx context.Context, p *v1.Pod) (string, error) {
	class := p.Spec.RuntimeClassName
	if class == nil || *class == "" {
		return "", nil
	}
	return w.Handler(ctx, *class)
}

// ids are those of the pod's user namespace, if it wants one.
func (w *worker) ids(p *v1.Pod) (userns.Range, error) {
	if p.Spec.HostUsers == nil || *p.Spec.HostUsers {
		return userns.Range{}, nil
	}
	if !w.UserNamespaces {
		if h := p.Spec.RuntimeClassName; h != nil && *h != "" {
			return userns.Range{}, fmt.Errorf("can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces", *h)
		}
		return userns.Range{}, errors.New("can't set `spec.hostUsers: false`, runtime does not support user namespaces")
	}
	return w.IDs.Take(w.uid)
}

func (w *worker) attachment(r *pod.Record) network.Pod {
	p := r.Pod
	out := network.Pod{ID: NetworkID(w.uid, r.Sandbox.Attempt), Namespace: p.Namespace, Name: p.Name, UID: w.uid}
	for _, c := range r.Specs() {
		if c.Kind == pod.Ephemeral {
			continue
		}
		for _, port := range c.Ports {
			if port.HostPort == 0 {
				continue
			}
			out.Ports = append(out.Ports, network.PortMapping{
				HostPort: port.HostPort, ContainerPort: port.ContainerPort, HostIP: port.HostIP,
				Protocol: strings.ToLower(string(port.Protocol)),
			})
		}
	}
	return out
}

func (w *worker) sandboxConfig(r *pod.Record, netns, kernelName string) (runtime.SandboxConfig, error) {
	p := r.Pod
	sysctls, err := podspec.Sysctls(p, w.Sysctls)
	if err != nil {
		return runtime.SandboxConfig{}, err
	}
	var profile *v1.SeccompProfile
	if p.Spec.SecurityContext != nil {
		profile = p.Spec.SecurityContext.SeccompProfile
	}
	seccomp, err := podspec.Seccomp(profile, w.SeccompRoot)
	if err != nil {
		return runtime.SandboxConfig{}, err
	}
	cfg := runtime.SandboxConfig{
		Pod: w.meta(p), Attempt: r.Sandbox.Attempt, Hostname: kernelName, NetNS: netns,
		HostPID: p.Spec.HostPID, HostIPC: p.Spec.HostIPC,
		ShareProcesses: p.Spec.ShareProcessNamespace != nil && *p.Spec.ShareProcessNamespace,
		CgroupParent:   podspec.CgroupParent(w.CgroupRoot, p), Sysctls: sysctls, Seccomp: seccomp,
	}
	if p.Spec.HostNetwork {
		cfg.Hostname = ""
	}
	return cfg, nil
}

func (w *worker) meta(p *v1.Pod) runtime.PodMeta {
	return runtime.PodMeta{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

func (w *worker) resetSandbox(ctx context.Context, r *pod.Record) outcome {
	if r.Sandbox.ID != "" {
		w.event(r, v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	if err := w.removeSandboxes(ctx, r); err != nil {
		return failed(err)
	}
	return func(r *pod.Record, now time.Time) { r.DidResetSandbox(now) }
}

// removeSandboxes removes all sandboxes of the pod and their networks.
func (w *worker) removeSandboxes(ctx context.Context, r *pod.Record) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	all, err := w.Runtime.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range ByPod(all)[w.uid].Sandboxes {
		errs = append(errs, w.Runtime.RemoveSandbox(ctx, s.ID))
	}
	for _, c := range ByPod(all)[w.uid].Containers {
		errs = append(errs, w.Runtime.RemoveContainer(ctx, c.ID))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if r.Pod.Spec.HostNetwork {
		return nil
	}
	return w.Network.Del(ctx, NetworkID(w.uid, r.Sandbox.Attempt))
}

func (w *worker) tearDown(ctx context.Context, r *pod.Record) outcome {
	if err := w.inTurn(ctx, func() error { return w.removeSandboxes(ctx, r) }); err != nil {
		return w.cannotKill(r, err)
	}
	if err := w.Volumes.TearDown(w.uid); err != nil {
		return w.cannotKill(r, err)
	}
	if err := w.Cgroups.Remove(podspec.CgroupParent(w.CgroupRoot, r.Pod)); err != nil {
		return w.cannotKill(r, err)
	}
	if err := os.RemoveAll(w.podDir()); err != nil {
		return w.cannotKill(r, err)
	}
	w.IDs.Release(w.uid)
	return func(r *pod.Record, now time.Time) { r.DidTearDown(now) }
}

func (w *worker) cannotKill(r *pod.Record, err error) outcome {
	if errors.Is(err, context.Canceled) { // the agent ends, and the next one goes on with it
		return failed(err)
	}
	w.event(r, v1.EventTypeWarning, "FailedKillPod", "error killing pod: %v", err)
	return failed(err)
}

// finish tells the API the last status, has it forget the pod, and forgets it.
func (w *worker) finish(ctx context.Context, r *pod.Record) outcome {
	if !r.Gone {
		if err := w.Status.Final(ctx, r.Pod, r.Status(w.Host, time.Now())); err != nil {
			w.Log.Warn("report the pod's end", "pod", r.Pod.Name, "namespace", r.Pod.Namespace, "err", err)
			return failed(err)
		}
	}
	w.Status.Forget(w.uid)
	if err := os.RemoveAll(LogDir(w.RootDir, r.Pod)); err != nil {
		return failed(err)
	}
	return func(*pod.Record, time.Time) {
		if err := w.Keep.Remove(w.uid); err != nil {
			w.Log.Error("forget the pod's record", "pod", w.uid, "err", err)
		}
		w.finished = true
	}
}
