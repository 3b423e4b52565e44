package flowcontrol

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// MaxStreams is how many watches and streams one user may have open, unless
// the host is told otherwise. No client of a cluster's own comes near: an agent
// has a dozen, and each has a name of its own.
const MaxStreams = 10_000

// holds counts what is open by user. It costs an entry for each user who has
// anything open.
type holds struct {
	most   int
	mu     sync.Mutex
	byUser map[string]int
}

// Hold counts a watch or another stream until release is called.
//
// # Errors
// 429 where the user has as many as one may.
func (f *Fair) Hold(who user.Info) (release func(), err error) {
	h, name := &f.holds, flowOf(who)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byUser[name] >= h.most {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf(
			"%q has %d watches and streams open, as many as one client may: end some of them, or start the host with a larger --max-streams", name, h.most), 10)
	}
	h.byUser[name]++
	return func() { h.release(name) }, nil
}

func (h *holds) release(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byUser[name]--; h.byUser[name] == 0 {
		delete(h.byUser, name)
	}
}
