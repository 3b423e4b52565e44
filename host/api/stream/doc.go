// Package stream answers what goes through the host to a node agent: logs,
// exec, attach and port-forward of pods, and the proxies to pods, services and
// nodes.
//
// The host checks the pod, the container and the caller, then speaks mutual TLS
// with the agent under the kubelet's own paths:
//
//	GET  /containerLogs/NS/POD/CONTAINER?follow&previous&timestamps&sinceSeconds&sinceTime&tailLines&limitBytes
//	POST /exec/NS/POD/CONTAINER?command=…&input&output&error&tty      (SPDY/3.1, or WebSocket up to v4)
//	POST /attach/NS/POD/CONTAINER?input&output&error&tty
//	POST /portForward/NS/POD
//
// Logs come by WebSocket, too, where a client asks for an upgrade. A log that the
// agent cuts short is cut short for the client: its end is never taken for all.
//
// The agent serves there with the certificate that it was given when it joined,
// for the name of its node; the host accepts no other, so an address that
// somebody else answers at gets nothing. Clients that speak WebSocket v5 or
// tunnel port-forward through a WebSocket are translated here, so that an agent
// needs to know SPDY only. A stream ends with its client, also where that is gone
// behind input that no program reads. What a client sent to prove who it is stays here.
package stream
