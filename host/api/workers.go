package api

import "sync/atomic"

// workers run short answers on goroutines that have run others before. HTTP/2
// begins each request on a new goroutine, whose stack would grow step by step
// to what validation needs: a tenth of the cost of a create. Like a sync.Pool
// it holds no state of any server, so there is one for all.
var workers = &pool{jobs: make(chan *job)}

type pool struct {
	jobs chan *job
	idle atomic.Int32
}

type job struct {
	run  func()
	done chan struct{}
	// panicked is what run panicked with, for the goroutine that waits.
	panicked any
}

const (
	// maxIdle bounds the goroutines that wait for something to do.
	maxIdle = 64
	// answersPerStack is after how many answers a worker begins anew, so that
	// one deep stack isn't kept for ever.
	answersPerStack = 1 << 12
)

// do runs fn and returns when it is done. It never waits for a worker: if none
// is idle, there is one more.
func (p *pool) do(fn func()) {
	j := &job{run: fn, done: make(chan struct{})}
	select {
	case p.jobs <- j:
	default:
		go p.work(j)
	}
	<-j.done
	if j.panicked != nil {
		panic(j.panicked)
	}
}

func (p *pool) work(j *job) {
	for range answersPerStack {
		j.guard()
		if p.idle.Add(1) > maxIdle {
			p.idle.Add(-1)
			return
		}
		j = <-p.jobs
		p.idle.Add(-1)
	}
	go p.work(j)
}

func (j *job) guard() {
	defer close(j.done)
	defer func() { j.panicked = recover() }()
	j.run()
}
