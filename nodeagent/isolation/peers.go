package isolation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/policy"
)

// PeersPath is where the host streams the cluster's pods.
const PeersPath = "/berth/v1/peers"

const (
	// silence is how long a stream may say nothing before it is given up.
	silence = time.Minute
	// again is how soon after its end it is asked for anew.
	again = time.Second
)

// line is one of the stream: a pod, or one that is gone, or that all were told,
// or nothing.
type line struct {
	UID, Namespace, Name, Node string
	Labels                     map[string]string
	IPs                        []string
	Ports                      []struct {
		Name     string
		Port     int32
		Protocol string
	}
	Gone, Synced bool
}

// pod is what policies see of it.
func (l *line) pod() *policy.Pod {
	out := &policy.Pod{Namespace: l.Namespace, Name: l.Name, Labels: l.Labels}
	for _, text := range l.IPs {
		if a, err := netip.ParseAddr(text); err == nil {
			out.IPs = append(out.IPs, a.Unmap())
		}
	}
	for _, p := range l.Ports {
		if protocol, known := forward.ProtocolOf(p.Protocol); known && p.Port > 0 && p.Port <= 65535 {
			out.Ports = append(out.Ports, policy.Port{Name: p.Name, Number: uint16(p.Port), Protocol: protocol})
		}
	}
	return out
}

// followPeers keeps the book's other pods those of the cluster, until ctx ends.
func (i *Isolation) followPeers(ctx context.Context) error {
	if i.cfg.Peers == nil {
		i.change(func(s *state) { s.peersSynced = true })
		<-ctx.Done()
		return ctx.Err()
	}
	told := ""
	for {
		err := i.readPeers(ctx, &told)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && told != err.Error() {
			told = err.Error()
			i.cfg.Log.Warn("the host does not tell of the cluster's pods: network policies go by those known so far", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
}

// readPeers reads one stream to its end. What was known before and is not told
// again before all were told is gone.
func (i *Isolation) readPeers(ctx context.Context, told *string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	stream, err := i.cfg.Peers(ctx)
	if err != nil {
		return fmt.Errorf("ask for the cluster's pods: %w", err)
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	lines, seen := json.NewDecoder(stream), map[string]bool{}
	for {
		watchdog.Reset(silence)
		l := line{}
		if err := lines.Decode(&l); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the cluster's pods: %w", err)
		}
		switch {
		case l.Synced:
			all := seen
			seen, *told = nil, ""
			i.change(func(s *state) { s.keepPeers(all) })
		case l.UID == "":
		case l.Gone:
			delete(seen, l.UID)
			i.change(func(s *state) { s.peer(l.UID, nil) })
		default:
			if seen != nil {
				seen[l.UID] = true
			}
			if l.Node == i.cfg.Node { // known here before anywhere else
				l.IPs = nil
			}
			pod := l.pod()
			i.change(func(s *state) { s.peer(l.UID, pod) })
		}
	}
}
