package main

import (
	"strings"
	"testing"
)

func TestRowsOfTheNetworkAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	if rows := networkRows(benchmarked{}); len(rows) > 0 {
		t.Errorf("rows of nothing: %v", rows)
	}
	tab := table{Name: "network", Title: "title", Rows: networkRows(benchmarked{
		"BenchmarkServices/30000_from_nothing":                {"ns/op": 1.5e9},
		"BenchmarkServices/three_endpoints_of_30000_services": {"ns/op": 45e6},
		"BenchmarkConnect/to_the_pod":                         {"ns/op": 130e3},
		"BenchmarkConnect/by_one_of_100_services":             {"ns/op": 128e3},
		"BenchmarkUDP":            {"ns/op": 8e3, "p99-µs": 120},
		"BenchmarkIndex/headless": {"ns/op": 1, "MiB": 12.5},
	})}
	var text strings.Builder
	if err := tab.writeMarkdown(&text); err != nil {
		t.Fatal(err)
	}
	want := `title:

| network | Berth | aim |  |
|---|---:|---:|---:|
| 30,000 services of three endpoints, from nothing | 1.50 s | ≤ 2 s | reached |
| three endpoints of one of 30,000 services changed, mean | 45 ms | ≤ 30 ms | missed |
| a new connection to a pod | 130 µs |  |  |
| a new connection by one of 100 services | 128 µs |  |  |
| what one of 100 services adds | -2 µs | ≤ 10 µs | reached |
| DNS at 5,000 services, client and server on one core | 125,000/s | ≥ 100,000/s | reached |
| an answer there, p99 | 0.120 ms | ≤ 1 ms | reached |
| names of 5,000 headless services | 12.5 MiB | ≤ 20 MiB | reached |

`
	if got := text.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
