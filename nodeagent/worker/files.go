package worker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/logs"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// LogDir is where a pod's logs lie.
func LogDir(root string, p *v1.Pod) string {
	return filepath.Join(root, "logs", p.Namespace+"_"+p.Name+"_"+string(p.UID))
}

// ContainerLogDir is where the logs of one of its containers lie.
func ContainerLogDir(root string, p *v1.Pod, container string) string {
	return filepath.Join(LogDir(root, p), container)
}

func logPath(root string, p *v1.Pod, container string, attempt uint32) string {
	return filepath.Join(ContainerLogDir(root, p, container), fmt.Sprintf("%d.log", attempt))
}

func (w *worker) podDir() string { return filepath.Join(w.RootDir, "pods", w.uid) }

func (w *worker) etc(name string) string { return filepath.Join(w.podDir(), "etc", name) }

// writeEtc makes the files that containers see in their /etc.
func (w *worker) writeEtc(r *pod.Record, ips []netip.Addr, kernelName, fqdn string) error {
	p := r.Pod
	if err := os.MkdirAll(w.etc(""), 0o755); err != nil {
		return err
	}
	var texts []string
	for _, ip := range ips {
		texts = append(texts, ip.String())
	}
	var machine []byte
	if p.Spec.HostNetwork {
		machine, _ = os.ReadFile(orElse(w.HostHosts, "/etc/hosts")) // absent: nothing to add
	}
	resolv, err := os.ReadFile(orElse(w.HostResolv, "/etc/resolv.conf"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	dns, lacks := podspec.ResolvConf(p, podspec.ParseResolvConf(string(resolv)), w.DNS)
	for _, l := range lacks {
		w.event(r, v1.EventTypeWarning, l.Reason, "%s", l.Message)
	}
	for name, text := range map[string][]byte{
		"hosts":       podspec.Hosts(p, texts, fqdn, machine),
		"resolv.conf": []byte(dns.String()),
		"hostname":    []byte(kernelName + "\n"),
	} {
		if err := os.WriteFile(w.etc(name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// etcMounts are the files of /etc that every container gets.
func (w *worker) etcMounts(p *v1.Pod, c *v1.Container) []runtime.Mount {
	names := []string{"hosts", "resolv.conf"}
	if !p.Spec.HostNetwork {
		names = append(names, "hostname")
	}
	readOnly := c.SecurityContext != nil && c.SecurityContext.ReadOnlyRootFilesystem != nil && *c.SecurityContext.ReadOnlyRootFilesystem
	var out []runtime.Mount
	for _, name := range names {
		taken := false
		for _, m := range c.VolumeMounts {
			taken = taken || m.MountPath == "/etc/"+name
		}
		if !taken {
			out = append(out, runtime.Mount{HostPath: w.etc(name), ContainerPath: "/etc/" + name, ReadOnly: readOnly})
		}
	}
	return out
}

func (w *worker) messageFile(container string, attempt uint32) string {
	return filepath.Join(w.podDir(), "containers", container, fmt.Sprintf("%d.message", attempt))
}

// maxMessage is how much of a termination message is kept.
const maxMessage = 4096

// messages reads what containers said at their ends, for those ends that the
// record does not know yet.
func (w *worker) messages(l runtime.Listing) func(pod.Spec, runtime.Container) string {
	type end struct {
		spec pod.Spec
		run  runtime.Container
	}
	var ends []end
	w.mu.Lock()
	for _, run := range l.Containers {
		s := w.rec.Containers[run.Name]
		if s == nil || run.State != runtime.Exited || s.ID == run.ID && s.Phase == pod.Terminated {
			continue
		}
		if spec, ok := w.rec.Spec(run.Name); ok {
			ends = append(ends, end{spec, run})
		}
	}
	w.mu.Unlock()
	texts := map[string]string{}
	for _, e := range ends {
		texts[e.run.ID] = w.message(e.spec, e.run)
	}
	return func(_ pod.Spec, run runtime.Container) string { return texts[run.ID] }
}

// message is the termination message, or, where its policy says so and the
// container failed, the end of its log.
func (w *worker) message(c pod.Spec, run runtime.Container) string {
	text := readAtMost(w.messageFile(c.Name, run.Attempt), maxMessage)
	failed := run.ExitCode != 0 || run.OOMKilled
	if text != "" || !failed || c.TerminationMessagePolicy != v1.TerminationMessageFallbackToLogsOnError {
		return text
	}
	var b bytes.Buffer
	if err := logs.Read(context.Background(), run.LogPath, logs.Options{Tail: 80, HasTail: true}, &b, &b, nil); err != nil {
		return ""
	}
	text = b.String()
	return text[max(len(text)-2048, 0):]
}

func readAtMost(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, n))
	if err != nil {
		return ""
	}
	return string(data)
}
