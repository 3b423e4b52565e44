package dns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// device has the addresses: pods' packets to them end on this machine.
const device = "lo"

// Claim gives this machine an address, unless it has it.
func Claim(a netip.Addr) error {
	if a.IsLoopback() {
		return nil
	}
	if has, err := hasAddress(a); has || err != nil {
		return err
	}
	lo, err := netlink.LinkByName(device)
	if err == nil {
		err = netlink.AddrAdd(lo, single(a))
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("take the address %s for DNS: only root may", a)
	case err != nil:
		return fmt.Errorf("take the address %s for DNS: %w", a, err)
	}
	return nil
}

// Disclaim takes addresses that Claim gave off again.
func Disclaim(all ...netip.Addr) error {
	var errs []error
	for _, a := range all {
		lo, err := netlink.LinkByName(device)
		if err == nil {
			err = netlink.AddrDel(lo, single(a))
		}
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			errs = append(errs, fmt.Errorf("give up the address %s: %w", a, err))
		}
	}
	return errors.Join(errs...)
}

func single(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, Flags: unix.IFA_F_NODAD}
}

func hasAddress(a netip.Addr) (bool, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false, fmt.Errorf("look at this machine's addresses: %w", err)
	}
	for _, one := range all {
		if p, err := netip.ParsePrefix(one.String()); err == nil && p.Addr().Unmap() == a {
			return true, nil
		}
	}
	return false, nil
}
