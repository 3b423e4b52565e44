package sandbox

import "sync"

// holds counts who may open a program: the set that it is in, and all that
// opened it for themselves.
type holds struct {
	mu sync.Mutex
	n  int
	// left ends the set's.
	left sync.Once
}

// Hold keeps the program's code until release; false if it has been given back.
func (p *Program) Hold() bool {
	p.holds.mu.Lock()
	defer p.holds.mu.Unlock()
	if p.holds.n == 0 {
		return false
	}
	p.holds.n++
	return true
}

// Release ends a hold; the last one gives the code back.
func (p *Program) Release() {
	p.holds.mu.Lock()
	defer p.holds.mu.Unlock()
	if p.holds.n--; p.holds.n == 0 {
		p.module.Close()
	}
}

// Leave ends the hold of the set that the program was in.
func (p *Program) Leave() { p.holds.left.Do(p.Release) }
