// Package logind has a machine's shutdown wait until its pods have ended: it takes a
// delay lock of systemd-logind's, as the kubelet does, and lets go of it then.
package logind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	service = "org.freedesktop.login1"
	path    = dbus.ObjectPath("/org/freedesktop/login1")
	manager = "org.freedesktop.login1.Manager"
	// retry is how soon a bus that was lost is looked for again.
	retry = 10 * time.Second
)

// Config is what Follow needs.
type Config struct {
	// Address of the bus; empty is the system's.
	Address string
	// Grace is how long Down takes at most.
	Grace time.Duration
	// Down ends what runs, before the machine goes down; Up is called if it does not
	// after all.
	Down, Up func(context.Context)
	Log      *slog.Logger
}

// Follow holds the lock until ctx ends. A machine without logind has none, which is
// no error.
func Follow(ctx context.Context, c Config) error {
	for {
		err := c.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errNone):
			c.Log.Debug("systemd-logind is not there: a shutdown of the machine does not wait for pods", "err", err)
			<-ctx.Done()
			return nil
		}
		c.Log.Warn("a shutdown of the machine does not wait for pods; it is tried again", "err", err, "again", retry)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}

// errNone is that there is no logind on this machine.
var errNone = errors.New("no systemd-logind")

func (c Config) connect(ctx context.Context) (*dbus.Conn, error) {
	if c.Address != "" {
		return dbus.Connect(c.Address, dbus.WithContext(ctx))
	}
	return dbus.ConnectSystemBus(dbus.WithContext(ctx))
}

// follow holds the lock until ctx ends or the bus does.
func (c Config) follow(ctx context.Context) error {
	conn, err := c.connect(ctx)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", errNone, err)
	}
	if err != nil {
		return fmt.Errorf("system bus: %w", err)
	}
	defer conn.Close()
	signals := make(chan *dbus.Signal, 8)
	conn.Signal(signals)
	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(manager), dbus.WithMatchMember("PrepareForShutdown"), dbus.WithMatchObjectPath(path)); err != nil {
		return fmt.Errorf("listen to systemd-logind: %w", err)
	}
	lock, err := c.inhibit(ctx, conn)
	if err != nil {
		return err
	}
	defer func() { lock.Close() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case s, ok := <-signals:
			if !ok {
				return errors.New("the system bus has gone")
			}
			down, ok := goesDown(s)
			switch {
			case !ok:
			case down:
				c.Log.Info("the machine shuts down")
				c.Down(ctx)
				lock.Close() // now it may
			default:
				c.Log.Info("the machine does not shut down after all")
				c.Up(ctx)
				lock.Close()
				if lock, err = c.inhibit(ctx, conn); err != nil {
					return err
				}
			}
		}
	}
}

// goesDown reads a signal: it is told before the machine shuts down, and with false
// when that was called off.
func goesDown(s *dbus.Signal) (down, ok bool) {
	if s.Name != manager+".PrepareForShutdown" || len(s.Body) != 1 {
		return false, false
	}
	down, ok = s.Body[0].(bool)
	return down, ok
}

// inhibit takes the lock, and says where logind will not wait for all of the grace.
func (c Config) inhibit(ctx context.Context, conn *dbus.Conn) (*os.File, error) {
	logind := conn.Object(service, path)
	var lock dbus.UnixFD
	err := logind.CallWithContext(ctx, manager+".Inhibit", 0, "shutdown", "Berth", "pods end gracefully", "delay").Store(&lock)
	var refused dbus.Error
	if errors.As(err, &refused) && (refused.Name == "org.freedesktop.DBus.Error.ServiceUnknown" || refused.Name == "org.freedesktop.DBus.Error.NameHasNoOwner") {
		return nil, fmt.Errorf("%w: %w", errNone, err)
	}
	if err != nil {
		return nil, fmt.Errorf("take a lock of systemd-logind: %w", err)
	}
	if longest, err := c.longest(ctx, logind); err == nil && longest < c.Grace {
		c.Log.Warn("systemd-logind lets no shutdown wait as long as pods may take to end: set InhibitDelayMaxSec in /etc/systemd/logind.conf.d/berth.conf, and run systemctl reload systemd-logind",
			"InhibitDelayMaxSec", longest, "wanted", c.Grace)
	}
	return os.NewFile(uintptr(lock), "shutdown lock"), nil
}

// longest is how long logind waits for those who hold a delay lock.
func (c Config) longest(ctx context.Context, logind dbus.BusObject) (time.Duration, error) {
	var v dbus.Variant
	err := logind.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, manager, "InhibitDelayMaxUSec").Store(&v)
	if err != nil {
		return 0, err
	}
	micro, ok := v.Value().(uint64)
	if !ok {
		return 0, fmt.Errorf("InhibitDelayMaxUSec is %T", v.Value())
	}
	return time.Duration(min(micro, uint64(time.Hour/time.Microsecond))) * time.Microsecond, nil
}
