// Package serve is the agent's HTTPS server, with the kubelet's own paths, for
// the host alone: each request needs a certificate that the cluster's
// authority signed for the host.
//
//	GET  /containerLogs/NS/POD/CONTAINER?follow&previous&timestamps&sinceSeconds&sinceTime&tailLines&limitBytes&stream
//	POST /exec/NS/POD/CONTAINER?command=…&input&output&error&tty     (SPDY/3.1, or WebSocket up to v4)
//	POST /attach/NS/POD/CONTAINER?input&output&error&tty
//	POST /portForward/NS/POD
//	GET  /stats/summary   /metrics   /metrics/cadvisor   /metrics/resource   /logs/   /pods   /healthz
package serve
