package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheMetersBenchmarkIsRead(t *testing.T) {
	t.Parallel()
	got := readMeter(`goos: linux
cpu: whatever
BenchmarkMeter/HostName/with-2         	   10000	     110.5 ns/op
BenchmarkMeter/HostName/without-2      	   10000	     100 ns/op
BenchmarkMeter/HostName/with-2         	   10000	     108 ns/op
BenchmarkMeter/HostName/without-2      	   10000	     104 ns/op
BenchmarkMeter/Lonely/with             	   10000	     104 ns/op
BenchmarkOther-2                       	   10000	     104 ns/op
PASS
`)
	want := []meterPair{{"HostName", 108, 100}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(meterPair{})); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
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
