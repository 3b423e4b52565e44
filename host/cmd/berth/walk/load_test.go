package walk_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// load is clients that connect all the time, each by a way of its own, and count
// what fails.
type load struct {
	stop    chan struct{}
	clients sync.WaitGroup

	mu      sync.Mutex
	asked   map[string]int           // by way
	slowest map[string]time.Duration // by way
	seen    map[string]bool          // what was answered
	failed  []error
}

func newLoad(t *testing.T) *load {
	l := &load{stop: make(chan struct{}), asked: map[string]int{}, slowest: map[string]time.Duration{}, seen: map[string]bool{}}
	t.Cleanup(func() { l.end() })
	return l
}

// add has a client ask every so often, in a network namespace: empty for the
// test's own.
func (l *load) add(way, netns string, every time.Duration, ask func() (string, error)) {
	l.clients.Go(func() {
		loop := func() error {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				select {
				case <-l.stop:
					return nil
				case <-tick.C:
					begun := time.Now()
					answer, err := ask()
					l.note(way, answer, time.Since(begun), err)
				}
			}
		}
		var err error
		if netns == "" {
			err = loop()
		} else {
			err = fromWithin(netns, loop)
		}
		if err != nil {
			l.note(way, "", 0, err)
		}
	})
}

func (l *load) note(way, answer string, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[way]++
	l.slowest[way] = max(l.slowest[way], took)
	if err != nil {
		l.failed = append(l.failed, fmt.Errorf("%s at %s: %w", way, time.Now().Format("05.000"), err))
		return
	}
	l.seen[answer] = true
}

// await waits until each way was taken some times more.
func (l *load) await(t *testing.T, more int) {
	t.Helper()
	l.mu.Lock()
	goal := map[string]int{}
	for way, n := range l.asked {
		goal[way] = n + more
	}
	l.mu.Unlock()
	eventually(t, fmt.Sprintf("each client asked %d times more", more), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for way, n := range goal {
			if l.asked[way] < n {
				return false
			}
		}
		return true
	})
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.clients.Wait()
}

// wantNoneFailed ends the clients.
func (l *load) wantNoneFailed(t *testing.T) {
	t.Helper()
	l.end()
	t.Logf("asked: %v; the slowest answer took: %v", l.asked, l.slowest)
	if n := len(l.failed); n > 0 {
		t.Errorf("%d failed: %v", n, errors.Join(l.failed[:min(n, 10)]...))
	}
}

// greeting is the answer to a GET by a connection of its own, which is made on
// this thread.
func greeting(address string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

// connect makes a connection and resets it, so that thousands a second leave no
// ports that wait.
func connect(address string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return "", err
	}
	return "", errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close())
}
