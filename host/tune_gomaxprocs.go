package host

import (
	"os"
	"runtime"
	"sync"
)

// processors are as many as this process may keep busy.
var processors = runtime.GOMAXPROCS(0)

// tuneGOMAXPROCS gives Go's scheduler one more than there are, once in a process.
// The store's msync holds one of them for as long as the disk takes, since Go
// takes those back only that wait for much longer; meanwhile its network, its
// collector and all requests would have one less. An operator who sets GOMAXPROCS
// decides it instead.
var tuneGOMAXPROCS = sync.OnceFunc(func() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors + 1)
	}
})
