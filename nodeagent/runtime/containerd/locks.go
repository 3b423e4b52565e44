package containerd

import "sync"

// locks are mutexes by name, which exist as long as somebody holds or wants them.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	sync.Mutex
	users int
}

// lock locks a name; the function that it returns unlocks it.
func (l *locks) lock(name string) (unlock func()) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*lock{}
	}
	one := l.held[name]
	if one == nil {
		one = &lock{}
		l.held[name] = one
	}
	one.users++
	l.mu.Unlock()

	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.held, name)
		}
	}
}
