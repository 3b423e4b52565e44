package stream

import (
	"encoding/base64"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/websocket"
)

func TestALogComesByWebSocket(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const want = "dev/p/c \n"
	for name, test := range map[string]struct{ protocol, want string }{
		"as bytes if nothing is said": {"", want},
		"as bytes":                    {"binary.k8s.io", want},
		"as text":                     {"base64.binary.k8s.io", base64.StdEncoding.EncodeToString([]byte(want))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws, err := websocket.Dial("ws"+strings.TrimPrefix(c.url, "http")+"/pods/p/log", test.protocol, c.url)
			if err != nil {
				t.Fatal(err)
			}
			defer ws.Close()
			got, err := io.ReadAll(ws)
			if err != nil || string(got) != test.want {
				t.Errorf("read %q, %v, want %q", got, err, test.want)
			}
		})
	}
	if _, err := websocket.Dial("ws"+strings.TrimPrefix(c.url, "http")+"/pods/p/log", "v9.k8s.io", c.url); err == nil {
		t.Error("a protocol that nobody knows is accepted")
	}
}

// TestALogByWebSocketEndsWithItsClient: the agent's side hangs in a log that
// says no more.
func TestALogByWebSocketEndsWithItsClient(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	host := strings.TrimPrefix(c.url, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	c.awaited.Store(conn.LocalAddr().String(), done)
	config, err := websocket.NewConfig("ws://"+host+"/pods/p/log?follow=true", c.url)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := websocket.NewClient(config, conn)
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("dev/p/c follow=true\n"))
	if _, err := io.ReadFull(ws, line); err != nil || string(line) != "dev/p/c follow=true\n" {
		t.Errorf("first line = %q, %v", line, err)
	}
	ws.Close()
	<-done
}
