package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// netSpace is a network namespace with nothing but its loopback device. It goes
// when it is closed and the last process in it has ended.
type netSpace struct {
	todo chan func()
	done sync.WaitGroup
	tid  int
	// relays are its listeners.
	relays []net.Listener
}

func newNetSpace() (*netSpace, error) {
	s := &netSpace{todo: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- fmt.Errorf("make a network namespace: %w", err)
			return
		}
		s.tid = unix.Gettid()
		made <- nil
		for f := range s.todo {
			f()
		}
	}()
	if err := <-made; err != nil {
		return nil, err
	}
	if err := s.do(loopbackUp); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// do runs f on a thread in the namespace: what it opens and starts belongs there.
func (s *netSpace) do(f func() error) error {
	done := make(chan error)
	s.todo <- func() { done <- f() }
	return <-done
}

// path names the namespace, while it is open.
func (s *netSpace) path() string { return fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), s.tid) }

// within runs f in the namespace on a thread of its own, beside others.
func (s *netSpace) within(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with f
		ns, err := os.Open(s.path())
		if err == nil {
			err = errors.Join(unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET), ns.Close())
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// loopbackUp sets the thread's loopback device up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("set the loopback device up: %w", err)
	}
	return nil
}

// relay has an address of the loopback device be reached in the namespace, too.
func (s *netSpace) relay(address string) error {
	var l net.Listener
	if err := s.do(func() (err error) { l, err = net.Listen("tcp", address); return err }); err != nil {
		return err
	}
	s.relays = append(s.relays, l)
	s.done.Go(func() {
		for {
			inside, err := l.Accept()
			if err != nil {
				return
			}
			s.done.Go(func() { join(inside, address) })
		}
	})
	return nil
}

// join copies both ways between a connection and a new one to the address, until
// one of them ends.
func join(inside net.Conn, address string) {
	defer inside.Close()
	outside, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(inside, outside)
		_ = inside.Close()
	}()
	_, _ = io.Copy(outside, inside)
	_ = outside.Close()
	<-back
}

// close ends what relays, when the processes in the namespace have ended.
func (s *netSpace) close() {
	var errs error
	for _, l := range s.relays {
		errs = errors.Join(errs, l.Close())
	}
	if errs != nil {
		say("%v", errs)
	}
	s.done.Wait()
	close(s.todo)
}
