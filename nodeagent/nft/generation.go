package nft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

var askGeneration = netlink.Message{
	Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
	Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
}

// generation asks how often nftables has been changed, by anybody: the kernel
// counts transactions. So nothing needs to be read where nothing changed.
func (k *Kernel) generation() (uint32, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: int(k.ns.Fd())})
	if err != nil {
		return 0, err
	}
	replies, err := c.Execute(askGeneration)
	if err := errors.Join(err, c.Close()); err != nil {
		return 0, fmt.Errorf("ask for the generation of rules: %w", err)
	}
	for _, m := range replies {
		if len(m.Data) < 4 {
			continue
		}
		attributes, err := netlink.NewAttributeDecoder(m.Data[4:])
		if err != nil {
			return 0, err
		}
		attributes.ByteOrder = binary.BigEndian
		for attributes.Next() {
			if attributes.Type() == unix.NFTA_GEN_ID {
				return attributes.Uint32(), nil
			}
		}
	}
	return 0, errors.New("ask for the generation of rules: the kernel tells none")
}

// flush makes a transaction, and counts it.
func (k *Kernel) flush(c *nftables.Conn) error {
	if err := c.Flush(); err != nil {
		return err
	}
	if k.known != 0 {
		k.known++ // from the last number on to 0, which is not known
	}
	return nil
}
