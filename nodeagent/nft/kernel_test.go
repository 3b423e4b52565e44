package nft

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
)

// TestWithoutNftables: a kernel says so in several ways.
func TestWithoutNftables(t *testing.T) {
	t.Parallel()
	open := func(answer syscall.Errno) error {
		k, err := Open(Config{Bridge: "berth0", dial: func(...nftables.ConnOption) (*nftables.Conn, error) {
			return nftables.New(nftables.WithTestDial(func([]netlink.Message) ([]netlink.Message, error) { return nil, answer }))
		}})
		if k != nil || !errors.Is(err, answer) {
			t.Errorf("where the kernel answers %v: %v", answer, err)
		}
		return err
	}
	const lacks = "this kernel has no nftables (CONFIG_NF_TABLES,"
	for _, no := range []syscall.Errno{syscall.EPROTONOSUPPORT, syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOENT} {
		if err := open(no); err == nil || !strings.Contains(err.Error(), lacks) {
			t.Errorf("where the kernel answers %v: %v, want %q", no, err, lacks)
		}
	}
	if err := open(syscall.EPERM); err == nil || strings.Contains(err.Error(), lacks) {
		t.Errorf("where the kernel permits nothing: %v", err)
	}
}
