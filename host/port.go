package host

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// keepPort keeps an address taken, whatever becomes of its listener, until it is
// released: who can listen there can open the data directory, too. Once ctx has
// ended, clients are turned away at once.
func keepPort(ctx context.Context, l net.Listener) (release func(), err error) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return func() {}, nil
	}
	file, err := tcp.File()
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", l.Addr(), err)
	}
	kept, err := net.FileListener(file)
	_ = file.Close()
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", l.Addr(), err)
	}
	var turning sync.WaitGroup
	turning.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer turning.Done()
		for {
			c, err := kept.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	})
	return func() {
		_ = kept.Close()
		if stop() {
			turning.Done() // nobody was turned away
		}
		turning.Wait()
	}, nil
}
