package stream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// way is how a client begins a stream: what it asks for, and what goes up.
type way struct{ method, path, upgrade, header string }

var ways = []way{
	{"POST", "/pods/p/exec?command=hang&command=PROGRAM&stdin=true&stdout=true&stderr=true", "SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io"},
	{"POST", "/pods/p/portforward", "SPDY/3.1", "X-Stream-Protocol-Version: portforward.k8s.io"},
	{"GET", "/pods/p/exec?command=hang&command=PROGRAM&stdin=true&stdout=true&tty=true", "websocket", "Sec-WebSocket-Protocol: v5.channel.k8s.io"},
	{"GET", "/pods/p/attach?stdin=true&stdout=true", "websocket", "Sec-WebSocket-Protocol: v4.channel.k8s.io"},
	{"GET", "/pods/p/portforward", "websocket", "Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io"},
}

// frames makes of a fuzzer's bytes what a client sends: pieces, each behind a
// byte for its kind and one for its length. Of the kind, the low bits are the
// opcode of a WebSocket frame, the high one that it stands by itself, and 0x40
// that the piece is sent as it is.
func frames(script []byte) []byte {
	var out bytes.Buffer
	for len(script) > 2 {
		kind, n := script[0], min(int(script[1]), len(script)-2)
		piece := script[2 : 2+n]
		script = script[2+n:]
		if kind&0x40 != 0 {
			out.Write(piece)
			continue
		}
		out.WriteByte(kind & 0x8f)
		if n < 126 {
			out.WriteByte(0x80 | byte(n))
		} else {
			out.WriteByte(0x80 | 126)
			_ = binary.Write(&out, binary.BigEndian, uint16(n))
		}
		out.Write([]byte{0, 0, 0, 0}) // the mask
		out.Write(piece)
	}
	return out.Bytes()
}

func framesOf(kind byte, pieces ...string) (script []byte) {
	for _, p := range pieces {
		script = append(script, kind, byte(len(p)))
		script = append(script, p...)
	}
	return script
}

// FuzzFrames begins a stream by each way and goes on with anything. The host
// ends it when the client or the program ends, and serves the next.
func FuzzFrames(f *testing.F) {
	c := newCluster(f)
	synStream := "\x80\x03\x00\x01\x01\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	settings := "\x80\x03\x00\x04\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\xff\xff"
	ping, goAway := "\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01", "\x80\x03\x00\x07\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00"
	data := "\x00\x00\x00\x01\x01\x00\x00\x05hello"
	for way := range ways {
		f.Add(uint8(way), framesOf(0x40, settings, synStream, data, ping, goAway))
		f.Add(uint8(way), framesOf(0x82, "\x00hello", "\x04{\"Width\":80,\"Height\":24}", "\xff\x00"))
		f.Add(uint8(way), framesOf(0x82, settings+ping, data, goAway))
		f.Add(uint8(way), append(framesOf(0x02, "\x00he"), framesOf(0x80, "llo")...))
		f.Add(uint8(way), append(framesOf(0x89, "ping"), framesOf(0x88, "\x03\xe8bye")...))
		f.Add(uint8(way), framesOf(0x40, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff"))
		f.Add(uint8(way), []byte{})
	}
	f.Fuzz(func(t *testing.T, way uint8, script []byte) {
		c.stream(t, ways[int(way)%len(ways)], frames(script), 50*time.Millisecond)
		if code, text := c.get(t, "/nodes/n1/proxy/healthz"); code != http.StatusOK || text != "ok" {
			t.Fatalf("then the host answers %d %s", code, text)
		}
		if said := c.said.String(); said != "" {
			t.Fatalf("the host's server says: %s", said)
		}
	})
}

// TestAStreamEndsWithItsClient: nobody waits for a program whose client is gone,
// though it neither reads nor writes.
func TestAStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const silent = "/pods/p/exec?command=hang&command=PROGRAM&stdin=true&stdout=true"
	for name, w := range map[string]way{
		"SPDY":         {"POST", silent, "SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io"},
		"WebSocket v5": {"GET", silent, "websocket", "Sec-WebSocket-Protocol: v5.channel.k8s.io"},
		"a terminal":   {"GET", silent + "&tty=true", "websocket", "Sec-WebSocket-Protocol: v5.channel.k8s.io"},
		"WebSocket v4": {"GET", silent, "websocket", "Sec-WebSocket-Protocol: v4.channel.k8s.io"},
		"port-forward": {"GET", "/pods/p/portforward", "websocket", "Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.stream(t, w, nil, time.Hour)
		})
	}
}

// TestAStreamEndsWithItsClientThoughNobodyReadsIt: what a client sent and no
// program reads does not hide that it is gone.
func TestAStreamEndsWithItsClientThoughNobodyReadsIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const silent = "/pods/p/exec?command=hang&command=PROGRAM&stdin=true&stdout=true"
	v4 := way{"GET", silent, "websocket", "Sec-WebSocket-Protocol: v4.channel.k8s.io"}
	v5 := way{"GET", silent, "websocket", "Sec-WebSocket-Protocol: v5.channel.k8s.io"}
	terminal := way{"GET", silent + "&tty=true", "websocket", "Sec-WebSocket-Protocol: v5.channel.k8s.io"}
	for name, tt := range map[string]struct {
		way  way
		sent []byte
	}{
		"a little input":           {v5, input(1)},
		"much input":               {v5, input(64)},
		"much input of a terminal": {terminal, input(64)},
		"a close behind the input": {v5, append(input(16), frames(framesOf(0x88, "\x03\xe8bye"))...)},
		"sizes for no terminal":    {v5, frames(framesOf(0x82, "\x04{\"Width\":80,\"Height\":24}", "\x04{\"Width\":81,\"Height\":24}", "\x04{\"Width\":82,\"Height\":24}"))},
		"an older client":          {v4, input(64)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.stream(t, tt.way, tt.sent, time.Hour)
		})
	}
}

// input is frames of 8 KiB for the program.
func input(n int) []byte {
	frame := append([]byte{0x82, 0x80 | 126, 0x20, 0x00, 0, 0, 0, 0}, make([]byte, 8<<10)...)
	return bytes.Repeat(frame, n)
}

// stream begins a stream, sends what is given, ends, and waits until the host
// has ended it. The program goes on for a while after the client.
func (c *cluster) stream(t *testing.T, w way, sent []byte, program time.Duration) {
	t.Helper()
	host := strings.TrimPrefix(c.url, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	me, done, end := conn.LocalAddr().String(), make(chan struct{}), make(chan struct{})
	over := sync.OnceFunc(func() { close(end) })
	defer over()
	c.awaited.Store(me, done)
	c.runtime.hangs.Store(me, end)
	defer c.runtime.hangs.Delete(me)
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		w.method, strings.ReplaceAll(w.path, "PROGRAM", me), host, w.upgrade, w.header)
	answers := bufio.NewReader(conn)
	answer, err := http.ReadResponse(answers, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%s %s by %s: %+v, %v", w.method, w.path, w.upgrade, answer, err)
	}
	_, _ = conn.Write(sent) // who is refused may not get all of it out
	_ = conn.(*net.TCPConn).CloseWrite()
	defer time.AfterFunc(program, over).Stop()
	_, _ = io.Copy(io.Discard, answers) // however it is ended
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s %s by %s goes on a minute after the client's end", w.method, w.path, w.upgrade)
	}
}
