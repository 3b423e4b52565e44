package main

import (
	"context"
	"errors"
	"os"
)

// Aims of the table network.
const (
	aimProgrammed = 2       // s
	aimFoundAgain = 1       // s
	aimChanged    = 30      // ms
	aimHop        = 10      // µs
	aimQueries    = 100_000 // a second
	aimAnswered   = 1       // ms
	aimNames      = 20      // MiB
	aimPolicies   = 20      // ms
	aimTunnel     = 95      // %
)

// berthColumn is Berth's where a row has figures of others, too.
const berthColumn = "Berth"

// The rows that kube-proxy has figures for, too.
const (
	fromNothing = "30,000 services of three endpoints, from nothing"
	foundAgain  = "the same, found again after a restart"
)

// networkBenches are the benchmarks of the node agent's packages that have figures
// with an aim.
var networkBenches = []goBench{
	{program: "nft.test", pattern: "^BenchmarkServices$/^30000_(from_nothing|found_again)$", lasts: "5x", root: true},
	{program: "nft.test", pattern: "^BenchmarkServices$/^three_endpoints_of_30000_services$", lasts: "200x", root: true},
	{program: "nft.test", pattern: "^BenchmarkConnect$", lasts: "2s", root: true},
	{program: "dns.test", pattern: "^BenchmarkUDP$", lasts: "2s", flags: []string{"-test.cpu=1"}},
	{program: "dns.test", pattern: "^BenchmarkAnswer$", lasts: "1s", flags: []string{"-test.cpu=1"}},
	{program: "dns.test", pattern: "^BenchmarkIndex$", lasts: "3x"},
	{program: "cni.test", pattern: "^BenchmarkTunnel$", lasts: "3s", root: true},
	{program: "isolation.test", pattern: "^BenchmarkPolicies$/^a_pod_(elsewhere|here)$", lasts: "50x", root: true},
}

const needsRoot = "Services, connections and policies were not measured: only root may make network namespaces and lay rules in them. Run it as root."

// measureNetwork runs the benchmarks that the node agent's packages have of their
// own, and kube-proxy. A failure keeps none of the others from being printed.
func measureNetwork(ctx context.Context, o *options) ([]table, error) {
	t := table{Name: "network", Title: "Services, names and policies of one node, in network namespaces of this machine"}
	root := os.Geteuid() == 0
	if !root {
		say("network: %s", needsRoot)
		t.Notes = append(t.Notes, needsRoot)
	}
	all := benchmarked{}
	var failed error
	for i := range networkBenches {
		g := &networkBenches[i]
		if g.root && !root {
			continue
		}
		say("network: %s %s", g.program, g.pattern)
		failed = errors.Join(failed, g.into(ctx, o, all))
		if ctx.Err() != nil {
			break
		}
	}
	t.Rows = networkRows(all)
	if root && ctx.Err() == nil {
		failed = errors.Join(failed, besideKubeProxy(ctx, &t))
	}
	if root && ctx.Err() == nil {
		failed = errors.Join(failed, besideForwarders(ctx, &t))
	}
	return []table{t}, failed
}

// networkRows are the rows that the benchmarks have figures for.
func networkRows(all benchmarked) (rows []row) {
	const s, ms, us = 1e9, 1e6, 1e3 // nanoseconds
	took := func(name string, unit float64) float64 { return all.get(name, "ns/op") / unit }
	direct := took("BenchmarkConnect/to_the_pod", us)
	by100 := took("BenchmarkConnect/by_one_of_100_services", us)
	by30000 := took("BenchmarkConnect/by_one_of_30000_services", us)
	for _, r := range []row{
		berths(fromNothing, took("BenchmarkServices/30000_from_nothing", s), "s").most(aimProgrammed),
		berths(foundAgain, took("BenchmarkServices/30000_found_again", s), "s").most(aimFoundAgain),
		berths("three endpoints of one of 30,000 services changed, mean", took("BenchmarkServices/three_endpoints_of_30000_services", ms), "ms").most(aimChanged),
		berths("a new connection to a pod", direct, "µs"),
		berths("a new connection by one of 100 services", by100, "µs"),
		berths("what one of 100 services adds", by100-direct, "µs").most(aimHop),
		berths("a new connection by one of 30,000 services", by30000, "µs"),
		berths("what one of 30,000 services adds", by30000-direct, "µs").most(aimHop),
		berths("a connection between machines, past the tunnel", all.get("BenchmarkTunnel/past_it", "MB/s"), "MB/s"),
		berths("by the tunnel", all.get("BenchmarkTunnel/by_it", "MB/s"), "MB/s"),
		berths("by the tunnel, of that past it", 100*all.get("BenchmarkTunnel/by_it", "MB/s")/all.get("BenchmarkTunnel/past_it", "MB/s"), "%").least(aimTunnel),
		berths("DNS at 5,000 services, client and server on one core", s/took("BenchmarkUDP", 1), "/s").least(aimQueries),
		berths("an answer there, p99", all.get("BenchmarkUDP", "p99-µs")/1e3, "ms").most(aimAnswered),
		berths("DNS at 5,000 services, without sockets, a core", s/took("BenchmarkAnswer", 1), "/s"),
		berths("names of 5,000 services", all.get("BenchmarkIndex/ClusterIP", "MiB"), "MiB").most(aimNames),
		berths("names of 5,000 headless services", all.get("BenchmarkIndex/headless", "MiB"), "MiB").most(aimNames),
		berths("1,000 policies, 100 pods here: a pod elsewhere changes, mean", took("BenchmarkPolicies/a_pod_elsewhere", ms), "ms").most(aimPolicies),
		berths("a pod here changes, mean", took("BenchmarkPolicies/a_pod_here", ms), "ms").most(aimPolicies),
	} {
		if len(r.Figures) > 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

func berths(name string, value float64, unit string) row {
	return row{Name: name}.with(berthColumn, value, unit)
}
