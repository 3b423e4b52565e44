package main

import (
	"strings"
	"testing"
)

// Flags of the agent that ask for nonsense are answered before anything starts.
func TestAgentsFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--eviction-hard nodefs.availble<5%":                            `--eviction-hard: signal "nodefs.availble" is unknown: use imagefs.available, `,
		"--eviction-hard nodefs.available":                              `"nodefs.available": want SIGNAL<QUANTITY or SIGNAL<PERCENT%`,
		"--eviction-hard memory.available<lots":                         "memory.available<lots: want a quantity such as 100Mi, or a share such as 10%",
		"--eviction-hard memory.available<0":                            "memory.available<0: want more than nothing; 0% is for no threshold",
		"--eviction-hard pid.available<101%":                            "pid.available<101%: want 0% to 100%",
		"--eviction-hard pid.available<1%,pid.available<2%":             "signal pid.available is given twice",
		"--image-gc-high-threshold 101":                                 "--image-gc-high-threshold 101: want 1 to 100",
		"--image-gc-low-threshold 85":                                   "--image-gc-low-threshold 85: want 0 to 84, less than --image-gc-high-threshold",
		"--image-gc-high-threshold 10 --image-gc-low-threshold=-1":      "--image-gc-low-threshold -1: want 0 to 9",
		"--node-lease-duration 1ms":                                     "--node-lease-duration 1ms: want a second at least",
		"--eviction-hard memory.available<1Mi,nodefs.available<0x10%25": "nodefs.available<0x10%25: want a quantity",
	} {
		for _, command := range []string{"agent --server https://127.0.0.1:1", "up"} {
			_, err := berth(t, strings.Fields(command+" "+args+" --data-dir "+t.TempDir())...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("berth %s %s: %v\nwant %q", command, args, err, want)
			}
		}
	}
}
