package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	imagecontainerd "github.com/berth-dev/berth/nodeagent/image/containerd"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd"
)

// Images reaches the images of a machine that another process has open: root
// is the one in that process's Config, address its containerd's socket or
// empty for the one that it started. close ends the connection.
func Images(ctx context.Context, root, address string) (images *imagecontainerd.Store, close func() error, err error) {
	if address == "" {
		state, err := stateOf(root)
		if err != nil {
			return nil, nil, err
		}
		address = filepath.Join(state, "containerd.sock")
	}
	if _, err := os.Stat(address); errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("no containerd at %s: start `berth up` first, or name a socket by --containerd-address", address)
	}
	log := slog.New(slog.DiscardHandler)
	c, snapshotter, err := containerd.Connect(ctx, address, log)
	if err != nil {
		return nil, nil, err
	}
	return imagecontainerd.New(imagecontainerd.Config{Client: c, Snapshotter: snapshotter, Root: root, Log: log}), c.Close, nil
}
