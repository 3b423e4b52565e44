package badger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/berth-dev/berth/host/store"
)

// An outage begins with a commit of which nobody knows whether it was written:
// a rotation that got no descriptor, a log that could not be synced. Badger is
// not asked again, since it ends the process when it is: it is closed, and opened
// anew as soon as that succeeds. Then the number of the last commit tells.
//
//	works ─── a commit fails ──► closing ─── closed ──► closed ─── opened ──► works
//	                                                      │
//	                                                      └── opening finds damage: the end
type outage struct {
	cause  error
	closed chan struct{} // closed when Badger has let go of the directory
	tried  time.Time
	fatal  error // nothing passes any more
}

const (
	// closingTime is how long a commit waits for Badger to close, and thus for
	// its own outcome.
	closingTime = 2 * time.Second
	// reopenEvery bounds how often opening is tried in vain.
	reopenEvery = 250 * time.Millisecond
)

func unavailable(cause error) error { return fmt.Errorf("%w: %w", store.ErrUnavailable, cause) }

// fail begins an outage, and ends it if that can be done at once. Called with
// commits held, as all of these.
func (e *Engine) fail(cause error, next plan) error {
	e.log.Error("the store cannot write; it is opened anew as soon as it can be, and refuses writes until then", "err", cause)
	o := &outage{cause: brief(cause), closed: make(chan struct{})}
	e.outage.Store(o)
	e.spare.release()
	go e.letGo(o)
	select {
	case <-o.closed:
	case <-time.After(closingTime):
	}
	if err := e.recover(); err != nil {
		return err
	}
	if e.ledger.commit == next.commit {
		return nil // it was written, all but the answer
	}
	return unavailable(o.cause)
}

// letGo closes Badger when nobody reads from it any more.
func (e *Engine) letGo(o *outage) {
	e.use.Lock()
	defer e.use.Unlock()
	err := guarded(e.db.Close)
	if err = errors.Join(err, e.witness.close()); err != nil {
		e.log.Warn("the store was not closed cleanly; what it holds is verified when it is opened", "err", err)
	}
	close(o.closed)
}

// recover ends an outage, if there is one and its cause has gone.
func (e *Engine) recover() error {
	o := e.outage.Load()
	if o == nil {
		return nil
	}
	if o.fatal != nil {
		return o.fatal
	}
	select {
	case <-o.closed:
	default:
		return unavailable(fmt.Errorf("%w; closing it takes its time", o.cause))
	}
	if time.Since(o.tried) < reopenEvery {
		return unavailable(o.cause)
	}
	o.tried = time.Now()
	e.use.Lock()
	defer e.use.Unlock()
	if err := e.reopen(); err != nil {
		if err = refusal(e.dir, err); errors.Is(err, store.ErrCorrupt) {
			o.fatal = err
			return err
		}
		o.cause = brief(err)
		return unavailable(o.cause)
	}
	e.outage.Store(nil)
	e.log.Info("the store writes again", "commit", e.ledger.commit, "revision", e.ledger.revision)
	return nil
}

func (e *Engine) reopen() error {
	if err := e.spare.probe(e.dir); err != nil {
		return err
	}
	return e.open()
}

// reading keeps Badger open until done is called. Where a scan finds an outage,
// it tries to end it.
func (e *Engine) reading() (db *badger.DB, done func(), err error) {
	if e.outage.Load() != nil {
		e.commits.Lock()
		err := e.recover()
		e.commits.Unlock()
		if err != nil {
			return nil, nil, err
		}
	}
	e.use.RLock()
	if e.outage.Load() != nil {
		e.use.RUnlock()
		return nil, nil, unavailable(errors.New("it is being closed"))
	}
	return e.db, e.use.RUnlock, nil
}

// spare holds descriptors that are let go when Badger finds none: to be opened
// anew takes a few more than it gives back.
type spare struct{ held []*os.File }

const spares = 24

// hold takes what is missing, as far as there are any.
func (s *spare) hold(dir string) {
	for len(s.held) < spares {
		f, err := os.Open(dir)
		if err != nil {
			return
		}
		s.held = append(s.held, f)
	}
}

func (s *spare) release() {
	for _, f := range s.held {
		_ = f.Close()
	}
	s.held = nil
}

// probe fails if there are too few descriptors to open the directory: Badger
// does not give back what it took when it finds so halfway.
func (s *spare) probe(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	var probes spare
	defer probes.release()
	for range len(files) + spares {
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("open badger: %w", err)
		}
		probes.held = append(probes.held, f)
	}
	return nil
}
