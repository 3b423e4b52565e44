package stream

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/berth-dev/berth/host/api/socket"
	"github.com/berth-dev/berth/host/auth/ca"
	"github.com/berth-dev/berth/host/polltest"
)

// The connections of a host are wrapped twice, and what was sent lies unread
// before the end.
func TestAClientThatIsGoneIsSeenBehindWhatItSent(t *testing.T) {
	t.Parallel()
	below, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	pair := pairOf(t, authority(t), ca.Subject{Name: "host", DNS: []string{"host"}})
	listener := tls.NewListener(socket.Listener{Listener: below}, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			err = c.(*tls.Conn).Handshake()
		}
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client, err := tls.Dial("tcp", below.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // whose it is does not matter here
	if err != nil {
		t.Fatal(err)
	}
	server := <-accepted
	defer server.Close()
	if _, err := client.Write(make([]byte, 100<<10)); err != nil {
		t.Fatal(err)
	}
	if gone(server) {
		t.Fatal("a client that is there is taken for gone")
	}
	_ = client.Close()
	polltest.Until(t, "a client that is gone is seen to be", func() bool { return gone(server) })
	_ = server.Close()
	if !gone(server) {
		t.Error("a connection that is closed is taken for one in use")
	}
}
