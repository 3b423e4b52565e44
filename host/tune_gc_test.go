package host

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestGuestsMayHaveAQuarterOfTheMemory(t *testing.T) {
	t.Parallel()
	for memory, want := range map[int64]int64{8 << 30: 2 << 30, 128 << 20: LeastGuestMemory, math.MaxInt64: 1 << 30} {
		if got := guestMemoryOf(memory); got != want {
			t.Errorf("of %d bytes guests may have %d, want %d", memory, got, want)
		}
	}
}

func TestMemoryIsTheMachinesOrWhatACgroupLeavesOfIt(t *testing.T) {
	t.Parallel()
	const machine = "MemFree:  1 kB\nMemTotal:       8388608 kB\nSwapTotal: 9 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"the machine's":          {map[string]string{"proc/meminfo": machine}, 8 << 30},
		"no limit in the cgroup": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 8 << 30},
		"the cgroup's own limit": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1073741824\n"}, 1 << 30},
		"a limit further up":     {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "2147483648\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 2 << 30},
		"more than there is":     {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "17179869184\n"}, 8 << 30},
		"the first version": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "9:cpu,cpuacct:/c\n8:cpuset,memory:/a/b\n1:name=systemd:/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1073741824\n", "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n"}, 1 << 30},
		"both versions": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "8:memory:/a\n0::/b\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "3221225472\n"}, 3 << 30},
		"no limit of the first version": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "8:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 8 << 30},
		"a group out of sight": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/../../x\n"}, 8 << 30},
		"not told":             {map[string]string{}, math.MaxInt64},
		"told strangely":       {map[string]string{"proc/meminfo": "MemTotal: much\n"}, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{}
			for file, text := range c.files {
				root[file] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := memoryIn(root); got != c.want {
				t.Errorf("memory is %d, want %d", got, c.want)
			}
		})
	}
}
