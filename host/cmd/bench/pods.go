package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// podsAtOnce is how many pods are made at once, podsAlone how many one by one.
	podsAtOnce, podsAlone = 50, 10
	aimAtOnce             = 1.3
	aimAlone              = 1.25
	aimDeleted            = 1
	// podsProcess is what this program is told to be in a network namespace.
	podsProcess = "pods-process"
	// podsWithin bounds each wait for pods.
	podsWithin = 3 * time.Minute
	podsImage  = "quickstart.tar"
	podsName   = "berth.local/web:1"

	floorColumn    = "floor"
	toFloorColumn  = "to floor"
	toStartsColumn = "to starting"
)

const podsNeedRoot = "Pods were not measured: only root may run containers. Run it as root."

// measurePods measures how long pods take from their creation until they are ready,
// in containers, beside runc and the CNI plugins alone. All of it is in a network
// namespace of its own, and so in a process of its own.
func measurePods(ctx context.Context, o *options) ([]table, error) {
	t := table{Name: "pods", Title: "Pods in containers of this machine, from their creation until Ready, beside runc and the CNI plugins alone"}
	if os.Geteuid() != 0 {
		say("pods: %s", podsNeedRoot)
		t.Notes = append(t.Notes, podsNeedRoot)
		return []table{t}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return []table{t}, err
	}
	cmd := exec.CommandContext(ctx, self, podsProcess, o.tools)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &t.Rows)
	}
	return []table{t}, err
}

// podsMeasured is the process of the table pods: it prints the rows.
func podsMeasured(ctx context.Context, args []string) (err error) {
	if len(args) != 1 {
		return fmt.Errorf("%s is started by the table pods", podsProcess)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var p podTimes
	if err := p.alone(ctx, args[0], filepath.Join(dir, "floor")); err != nil {
		return fmt.Errorf("runc and the CNI plugins alone: %w", err)
	}
	if err := p.ofBerth(ctx, args[0], filepath.Join(dir, "berth")); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(p.rows())
}

// podTimes are how long pods took: each by itself, and many at once from the first
// to the last.
type podTimes struct {
	one, oneAlone         times
	started, startedAlone times
	deleted, deletedAlone times
}

func (p *podTimes) rows() []row {
	against := func(name string, took, floor time.Duration) row {
		return row{Name: name}.with(berthColumn, millis(took), "ms").with(floorColumn, millis(floor), "ms").with(toFloorColumn, ratio(took, floor), "×")
	}
	first, last := p.started.at(0), p.started.at(1)
	return []row{
		against(fmt.Sprintf("one pod, median of %d", len(p.one)), p.one.at(0.5), p.oneAlone.at(0.5)).judged(toFloorColumn, atMost, aimAlone),
		against(fmt.Sprintf("%d pods at once, until the first is ready", podsAtOnce), first, p.startedAlone.at(0)),
		against(fmt.Sprintf("%d pods at once, until the last is ready", podsAtOnce), last, p.startedAlone.at(1)).judged(toFloorColumn, atMost, aimAtOnce),
		against(fmt.Sprintf("%d pods deleted at once, until the last is gone", podsAtOnce), p.deleted.at(1), p.deletedAlone.at(1)).
			with(toStartsColumn, ratio(p.deleted.at(1), last), "×").judged(toStartsColumn, atMost, aimDeleted),
	}
}

// alone measures runc and the CNI plugins.
func (p *podTimes) alone(ctx context.Context, tools, dir string) (err error) {
	say("pods: runc and the CNI plugins alone")
	f, err := newFloor(dir, filepath.Join(tools, "web"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for range podsAlone + 1 {
		took, err := f.start(ctx, 1)
		if err != nil {
			return err
		}
		p.oneAlone = append(p.oneAlone, took...)
		if _, err := f.end(ctx); err != nil {
			return err
		}
	}
	p.oneAlone = p.oneAlone[1:] // the first made the bridge
	if p.startedAlone, err = f.start(ctx, podsAtOnce); err != nil {
		return err
	}
	p.deletedAlone, err = f.end(ctx)
	return err
}

// ofBerth measures a cluster of this machine, whose host is a process of its own.
func (p *podTimes) ofBerth(ctx context.Context, tools, dir string) (err error) {
	say("pods: berth up")
	c, err := up(ctx, tools, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	for range podsAlone + 1 {
		took, err := c.ready(ctx, 1)
		if err != nil {
			return err
		}
		p.one = append(p.one, took...)
		if _, err := c.gone(ctx, 1); err != nil {
			return err
		}
	}
	p.one = p.one[1:] // the first made the bridge, and unpacked the image
	say("pods: %d at once", podsAtOnce)
	if p.started, err = c.ready(ctx, podsAtOnce); err != nil {
		return err
	}
	// A program that is told to end before it listens for that does not.
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	p.deleted, err = c.gone(ctx, podsAtOnce)
	return err
}
