package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheMetersBenchmarkIsRead(t *testing.T) {
	t.Parallel()
	got := readMeter(`goos: linux
cpu: whatever
BenchmarkMeter/HostName-2   100   8.5 meter-%   6.5 plain-ns/row
BenchmarkMeter/HostName-2   100   9.5 meter-%   6.7 plain-ns/row
BenchmarkMeter/HostName-2   100   1.5 meter-%   6.6 plain-ns/row
BenchmarkMeter/all-2   1000000000   14.5 meter-%   325.1 plain-ns/row
BenchmarkOther-2       	   10000	     104 ns/op
PASS
`)
	want := []row{
		row{Name: "HostName"}.with("cost", 8.5, "%").with("unmetered", 6.6, "ns/row"),
		row{Name: "all together"}.with("cost", 14.5, "%").with("unmetered", 325.1, "ns/row").most(15),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestAStatusIsRead(t *testing.T) {
	t.Parallel()
	const status = "Name:\tetcd\nVmRSS:\t  5000 kB\nRssAnon:\t    1234 kB\nRssFile:\t9 kB\n"
	if got := statusKiB(status, "RssAnon:"); got != 1234 {
		t.Errorf("RssAnon = %v, want 1234", got)
	}
	if got := statusKiB(status, "Nothing:"); got == got {
		t.Errorf("a line that is not there = %v, want no number", got)
	}
}
