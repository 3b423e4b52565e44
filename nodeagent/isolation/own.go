package isolation

import (
	"context"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/policy"
)

// Set tells what the API has of a pod of this machine.
func (i *Isolation) Set(p *v1.Pod) {
	if !p.Spec.HostNetwork {
		i.change(func(s *state) { s.set(p) })
	}
}

// Delete tells that the API has a pod no more. Until its network goes it stays as
// it is.
func (i *Isolation) Delete(uid string) {
	i.change(func(s *state) {
		if o := s.own[uid]; o != nil {
			o.gone = true
			s.refresh(uid)
		}
	})
}

// Adopt tells of a pod that a former process connected.
func (i *Isolation) Adopt(p *v1.Pod, id string, ips []netip.Addr) {
	if !p.Spec.HostNetwork && len(ips) > 0 {
		i.change(func(s *state) {
			s.set(p)
			s.attach(id, string(p.UID), ips)
		})
	}
}

func (s *state) set(p *v1.Pod) {
	uid := string(p.UID)
	if s.own[uid] == nil {
		s.own[uid] = &own{}
		delete(s.peers, uid)
	}
	s.own[uid].pod = p
	s.refresh(uid)
}

func (s *state) attach(id, uid string, ips []netip.Addr) {
	s.attached[id] = attachment{uid, ips}
	if o := s.own[uid]; o != nil {
		o.ever = true
	}
	s.refresh(uid)
}

// connect attaches a pod that has sent nothing yet.
func (s *state) connect(id, uid string, ips []netip.Addr) {
	if _, again := s.attached[id]; !again {
		s.arrived = append(s.arrived, ips...)
	}
	s.attach(id, uid, ips)
}

func (s *state) detach(id string) {
	a, was := s.attached[id]
	delete(s.attached, id)
	if was {
		s.refresh(a.uid)
		s.left = append(s.left, a.ips...)
	}
}

// refresh writes what a pod of this machine is.
func (s *state) refresh(uid string) {
	o := s.own[uid]
	if o == nil {
		return
	}
	var ips []netip.Addr
	for _, a := range s.attached {
		if a.uid == uid {
			ips = append(ips, a.ips...)
		}
	}
	if len(ips) == 0 && !o.ever && !o.gone { // of a former process whose record is lost
		if p := policy.Of(o.pod); p != nil {
			ips = p.IPs
		}
	}
	if len(ips) == 0 {
		s.book.Put(uid, nil, true)
		if o.gone {
			delete(s.own, uid)
		}
		return
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	s.book.Put(uid, &policy.Pod{
		Namespace: o.pod.Namespace, Name: o.pod.Name, Labels: o.pod.Labels, IPs: slices.Compact(ips), Ports: policy.NamedPorts(&o.pod.Spec),
	}, true)
}

// Network isolates the pods that another connects: Add returns when the kernel
// has their rules.
func (i *Isolation) Network(n network.Network) network.Network { return &isolated{n, i} }

type isolated struct {
	network.Network
	*Isolation
}

func (n *isolated) Add(ctx context.Context, pod network.Pod) (network.Attachment, error) {
	a, err := n.Network.Add(ctx, pod)
	if err != nil {
		return a, err
	}
	return a, n.await(ctx, func(s *state) { s.connect(pod.ID, pod.UID, a.IPs) })
}

func (n *isolated) Del(ctx context.Context, id string) error {
	if err := n.Network.Del(ctx, id); err != nil {
		return err
	}
	n.change(func(s *state) { s.detach(id) })
	return nil
}

func (n *isolated) Sweep(ctx context.Context, keep func() []string) error {
	if err := n.Network.Sweep(ctx, keep); err != nil {
		return err
	}
	n.change(func(s *state) {
		kept := keep()
		for id := range s.attached {
			if !slices.Contains(kept, id) {
				s.detach(id)
			}
		}
	})
	return nil
}
