package announce

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/ethernet"
	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"
)

// link answers on one interface.
type link struct {
	ifi net.Interface
	log *slog.Logger
	arp *arp.Client // nil: there is no address of IPv4 to answer for
	ndp *ndp.Conn   // nil: there is none of IPv6
	run sync.WaitGroup
	// lost: a reader has ended, as it does when the interface goes down.
	lost atomic.Bool

	mu sync.Mutex
	// answers are the addresses, true until fresh was told of them.
	answers map[netip.Addr]bool
}

func newLink(ifi net.Interface, log *slog.Logger) *link {
	return &link{ifi: ifi, log: log, answers: map[netip.Addr]bool{}}
}

// is tells whether this link still answers on an interface.
func (l *link) is(ifi net.Interface) bool {
	return !l.lost.Load() && l.ifi.Name == ifi.Name && bytes.Equal(l.ifi.HardwareAddr, ifi.HardwareAddr)
}

func (l *link) close() {
	if l.arp != nil {
		_ = l.arp.Close() // its reader ends
	}
	if l.ndp != nil {
		_ = l.ndp.Close() // which leaves all groups, too
	}
	l.run.Wait()
}

// set answers for these addresses and no others. What fails is tried again when it
// is set again.
func (l *link) set(all []netip.Addr) (failed map[netip.Addr]error) {
	failed = map[netip.Addr]error{}
	for _, at := range l.answered() {
		if !slices.Contains(all, at) {
			l.forget(at)
		}
	}
	for _, at := range all {
		if l.has(at) {
			continue
		}
		err := l.open(at)
		if err == nil && at.Is6() {
			err = l.group(at, l.ndp.JoinGroup)
		}
		if err != nil {
			failed[at] = fmt.Errorf("link %s: %w", l.ifi.Name, err)
			continue
		}
		l.mu.Lock()
		l.answers[at] = true
		l.mu.Unlock()
	}
	return failed
}

// open listens for what is asked of a family's addresses.
func (l *link) open(at netip.Addr) (err error) {
	if at.Is4() {
		if l.arp != nil {
			return nil
		}
		if l.arp, err = arp.Dial(&l.ifi); err != nil {
			l.arp = nil
			return err
		}
		l.run.Go(func() { l.answerARP(l.arp) })
		return nil
	}
	if l.ndp != nil {
		return nil
	}
	if l.ndp, _, err = ndp.Listen(&l.ifi, ndp.LinkLocal); err != nil {
		l.ndp = nil
		return err
	}
	var asked ipv6.ICMPFilter
	asked.SetAll(true)
	asked.Accept(ipv6.ICMPTypeNeighborSolicitation)
	if err := l.ndp.SetICMPFilter(&asked); err != nil {
		_ = l.ndp.Close()
		l.ndp = nil
		return err
	}
	l.run.Go(func() { l.answerNDP(l.ndp) })
	return nil
}

func (l *link) forget(at netip.Addr) {
	l.mu.Lock()
	delete(l.answers, at)
	l.mu.Unlock()
	if at.Is6() && l.ndp != nil {
		_ = l.group(at, l.ndp.LeaveGroup) // another address may have the same
	}
}

// group joins or leaves the one in which an address is asked for, unless another
// address of ours is asked for there.
func (l *link) group(at netip.Addr, do func(netip.Addr) error) error {
	group, err := ndp.SolicitedNodeMulticast(at)
	if err != nil {
		return err
	}
	for _, other := range l.answered() {
		if same, err := ndp.SolicitedNodeMulticast(other); err == nil && other != at && other.Is6() && same == group {
			return nil
		}
	}
	return do(group)
}

// answered are the addresses that are.
func (l *link) answered() []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]netip.Addr, 0, len(l.answers))
	for at := range l.answers {
		out = append(out, at)
	}
	return out
}

func (l *link) has(at netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.answers[at]
	return ok
}

// fresh tells once of each address that it is new here.
func (l *link) fresh(at netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.answers[at]
	if fresh {
		l.answers[at] = false
	}
	return fresh
}

func (l *link) answerARP(c *arp.Client) {
	defer l.lost.Store(true)
	for {
		asked, _, err := c.Read()
		switch {
		case err != nil && ended(err):
			return
		case err != nil: // no packet of ARP as we know it
			continue
		case asked.Operation != arp.OperationRequest || !l.has(asked.TargetIP) || bytes.Equal(asked.SenderHardwareAddr, l.ifi.HardwareAddr):
			continue
		}
		if err := c.Reply(asked, l.ifi.HardwareAddr, asked.TargetIP); err != nil && !ended(err) {
			l.log.Warn("answer ARP", "address", asked.TargetIP, "link", l.ifi.Name, "err", err)
		}
	}
}

// ended tells an interface or a socket that is gone from a packet that is none.
func ended(err error) bool {
	var op *net.OpError
	return errors.Is(err, net.ErrClosed) || errors.As(err, &op)
}

func (l *link) answerNDP(c *ndp.Conn) {
	defer l.lost.Store(true)
	for {
		message, _, from, err := c.ReadFrom()
		switch {
		case err != nil && ended(err):
			return
		case err != nil:
			continue
		}
		asked, ok := message.(*ndp.NeighborSolicitation)
		if !ok || !l.has(asked.TargetAddress) {
			continue
		}
		to, solicited := from, true
		if from.IsUnspecified() { // somebody asks whether it is free
			to, solicited = everybody, false
		}
		if err := l.advertise(c, asked.TargetAddress, to, solicited); err != nil && !ended(err) {
			l.log.Warn("answer neighbour discovery", "address", asked.TargetAddress, "link", l.ifi.Name, "err", err)
		}
	}
}

// everybody are all nodes of a link.
var everybody = netip.MustParseAddr("ff02::1")

func (l *link) advertise(c *ndp.Conn, at, to netip.Addr, solicited bool) error {
	return c.WriteTo(&ndp.NeighborAdvertisement{
		Solicited: solicited, Override: true, TargetAddress: at,
		Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: l.ifi.HardwareAddr}},
	}, nil, to)
}

// tell says to everybody where an address is: those who have it of another node
// learn of it.
func (l *link) tell(at netip.Addr) error {
	if at.Is6() {
		return l.advertise(l.ndp, at, everybody, false)
	}
	// Some believe requests, some replies.
	for _, operation := range []arp.Operation{arp.OperationRequest, arp.OperationReply} {
		p, err := arp.NewPacket(operation, l.ifi.HardwareAddr, at, ethernet.Broadcast, at)
		if err != nil {
			return err
		}
		if err := l.arp.WriteTo(p, ethernet.Broadcast); err != nil {
			return err
		}
	}
	return nil
}
