package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Aims of a node whose agent, or kube-proxy, has 5,000 services.
const (
	forwarded      = 5000
	aimIdle        = 0.5 // % of a core
	aimFirstPacket = 100 // ms
)

const (
	// forwarderSettles is how long after its start a forwarder is idle, for how long
	// that is measured, and what passes before and after it is killed.
	forwarderSettles = 10 * time.Second
	forwarderIdles   = 60 * time.Second
	betweenKills     = 3 * time.Second
)

const (
	madeWhileKilled   = "2,000 connections a second for 9 s, in which the agent is killed and comes back: made"
	failedWhileKilled = "of these failed"
	slowestConnection = "the slowest of them"
	changeWhileKilled = "an endpoint that changed meanwhile, from the start of the process"
	idleShare         = "idle at 5,000 services, of a core"
	firstPacketMedian = "a pod of another node is Ready, until its Service's first connection, median"
	firstPacketP99    = "the same, p99"
)

// forwarder is a program that makes services answer: the node agent, or kube-proxy.
type forwarder struct {
	column  string
	command func() *exec.Cmd
	log     string

	cmd   *exec.Cmd
	ended chan error
}

// forwarders are those that can be measured, Berth's first.
func (r *rig) forwarders() ([]*forwarder, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := filepath.Abs(r.kubeconfig)
	if err != nil {
		return nil, err
	}
	agent := filepath.Join(r.dir, "agent")
	all := []*forwarder{{column: berthColumn, log: agent + ".log", command: func() *exec.Cmd {
		return exec.Command(self, networkProcess, "--kubeconfig", kubeconfig, "--dir", agent)
	}}}
	if _, err := exec.LookPath("kube-proxy"); err != nil {
		return all, nil // a note says who builds it
	}
	config, err := configureKubeProxy(r)
	return append(all, &forwarder{column: kubeProxyColumn, log: filepath.Join(r.dir, "kube-proxy.log"), command: func() *exec.Cmd {
		return exec.Command("kube-proxy", "--config", config)
	}}), err
}

// start runs it in a node's namespace.
func (f *forwarder) start(n *node) error {
	log, err := os.Create(f.log)
	if err != nil {
		return err
	}
	defer log.Close()
	f.cmd, f.ended = f.command(), make(chan error, 1)
	f.cmd.Stdout, f.cmd.Stderr = log, log
	if err := n.own.do(f.cmd.Start); err != nil {
		return err
	}
	cmd, ended := f.cmd, f.ended
	go func() { ended <- cmd.Wait() }()
	return nil
}

// serve starts a forwarder and waits until the Service answers.
func (f *forwarder) serve(ctx context.Context, n *node) error {
	if err := f.start(n); err != nil {
		return err
	}
	return f.await(ctx, "the Service does not answer", lookEvery, func() bool {
		return n.pod.within(func() error { return connect(fmt.Sprint(keptAddress, ":", farPort)) }) == nil
	})
}

// end kills it, as a crash would.
func (f *forwarder) end() {
	if f.cmd == nil {
		return
	}
	_ = f.cmd.Process.Kill()
	<-f.ended
	f.cmd = nil
}

// await waits until something is true, which it never is where the program ended.
func (f *forwarder) await(ctx context.Context, what string, often time.Duration, is func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, kubeProxyTimeout)
	defer cancel()
	for !is() {
		select {
		case err := <-f.ended:
			f.cmd = nil
			said, _ := os.ReadFile(f.log)
			return fmt.Errorf("%s ended: %w: %s", f.column, err, tail(string(said)))
		case <-ctx.Done():
			said, _ := os.ReadFile(f.log)
			return fmt.Errorf("%s: %s: %w: %s", f.column, what, ctx.Err(), tail(string(said)))
		case <-time.After(often):
		}
	}
	return nil
}

// cpu is the processors' time that it has used.
func (f *forwarder) cpu() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", f.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return processorTime(string(data))
}

// processorTime reads a line of /proc/PID/stat: its name, which may have blanks, is
// in parentheses.
func processorTime(stat string) (time.Duration, error) {
	_, rest, ok := strings.Cut(stat[strings.LastIndex(stat, ")")+1:], " ")
	words := strings.Fields(rest)
	if !ok || len(words) < 13 {
		return 0, fmt.Errorf("%q is no process", stat)
	}
	user, err := strconv.ParseInt(words[11], 10, 64)
	system, err2 := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err, err2)
}

// idle is the share of a core that it uses while nothing changes, in percent.
func (f *forwarder) idle(ctx context.Context, during time.Duration) (float64, error) {
	before, err := f.cpu()
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, during); err != nil {
		return 0, err
	}
	after, err := f.cpu()
	return 100 * float64(after-before) / float64(during), err
}

// besideForwarders measures the node agent with many services, and kube-proxy.
func besideForwarders(ctx context.Context, t *table) error {
	rows := map[string]row{}
	names := []string{madeWhileKilled, failedWhileKilled, slowestConnection, changeWhileKilled, idleShare, firstPacketMedian, firstPacketP99}
	err := onRig(ctx, func(r *rig) error {
		if err := errors.Join(r.proxied(ctx, 0, forwarded), r.keep(ctx), r.preparePods(ctx)); err != nil {
			return err
		}
		all, err := r.forwarders()
		if err != nil {
			return err
		}
		for i, f := range all {
			if err := r.forward(ctx, f, i, t, rows); err != nil {
				return err
			}
		}
		return nil
	})
	for _, name := range names {
		if r, ok := rows[name]; ok {
			t.Rows = append(t.Rows, r)
		}
	}
	return err
}

// forward measures one in a node of its own.
func (r *rig) forward(ctx context.Context, f *forwarder, i int, t *table, rows map[string]row) error {
	say("network: %s with %d services: idle, pods that become ready, and killed", f.column, forwarded)
	api, err := url.Parse(r.config.Host)
	if err != nil {
		return err
	}
	n, err := newNode(ctx, api.Host)
	if err != nil {
		return err
	}
	defer n.close()
	if _, err := r.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Update(ctx, keptSlice(2*i), metav1.UpdateOptions{}); err != nil {
		return err
	}
	defer f.end()
	if err := f.serve(ctx, n); err != nil {
		return err
	}
	if err := pause(ctx, forwarderSettles); err != nil {
		return err
	}
	idle, err := f.idle(ctx, forwarderIdles)
	if err != nil {
		return err
	}
	took, err := r.firstPackets(ctx, n, f.column, becomeReady)
	if err != nil {
		return err
	}
	out, err := r.outlive(ctx, f, n, 2*i+1, betweenKills)
	if err != nil {
		return err
	}
	if out.why != nil {
		t.Notes = append(t.Notes, fmt.Sprintf("%s: the first connection that failed: %v.", f.column, out.why))
	}
	add := func(name string, value float64, unit string) {
		row, ok := rows[name]
		if !ok {
			row.Name = name
		}
		rows[name] = row.with(f.column, value, unit)
	}
	add(madeWhileKilled, float64(out.made), "")
	add(failedWhileKilled, float64(out.failed), "")
	add(slowestConnection, millis(out.slowest), "ms")
	add(changeWhileKilled, millis(out.knows), "ms")
	add(idleShare, idle, "%")
	add(firstPacketMedian, millis(took.at(0.5)), "ms")
	add(firstPacketP99, millis(took.at(0.99)), "ms")
	if f.column == berthColumn {
		for name, most := range map[string]float64{failedWhileKilled: 0, idleShare: aimIdle, firstPacketP99: aimFirstPacket} {
			rows[name] = rows[name].most(most)
		}
	}
	return nil
}
