package cni

import (
	"io"
	"net"
	"testing"
)

// BenchmarkTunnel sends through one connection between two machines that a router
// parts: to the other machine's own address, and to one of its pods' range, which the
// tunnel leads to.
func BenchmarkTunnel(b *testing.B) {
	s := newSite(b)
	s.connect(b)
	for _, to := range []struct{ name, address string }{{"past_it", "198.51.100.2:7001"}, {"by_it", "10.99.2.1:7001"}} {
		b.Run(to.name, func(b *testing.B) { send(b, s.one, s.two, to.address) })
	}
}

// chunk is what is written at a time.
const chunk = 1 << 20

// send has one host send to another, which reads it.
func send(b *testing.B, from, to host, address string) {
	var listener net.Listener
	var conn net.Conn
	var err error
	to.Within(func() { listener, err = net.Listen("tcp", address) })
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	read := make(chan int64, 1)
	go func() {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		n, _ := io.Copy(io.Discard, in)
		read <- n
	}()
	from.Within(func() { conn, err = net.Dial("tcp", address) })
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, chunk)
	b.SetBytes(chunk)
	for b.Loop() {
		if _, err := conn.Write(data); err != nil {
			b.Fatal(err)
		}
	}
	if err := conn.Close(); err != nil {
		b.Fatal(err)
	}
	if got := <-read; got != int64(b.N)*chunk {
		b.Errorf("%d bytes came of %d", got, int64(b.N)*chunk)
	}
}
