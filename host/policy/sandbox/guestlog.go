package sandbox

import (
	"log/slog"
	"sync"
	"time"
)

// maxWords is how many lines of a policy's guests are kept.
const maxWords = 200

// Line is something that a guest said, or that became of it.
type Line struct {
	// Number counts the lines of a Policy from 1.
	Number int64      `json:"number"`
	At     time.Time  `json:"at"`
	Level  slog.Level `json:"level"`
	// Digest is of the module that said it: a canary's lines are among them.
	Digest  string `json:"digest"`
	Message string `json:"message"`
}

// Limits of what all guests of a Policy may say together. An instance has its
// own, but a guest may have itself built anew again and again.
const (
	wordsPerRate = 20 // a second, after a burst
	wordsBurst   = 400
)

// GuestLog is the last lines of all guests that a Policy has and had.
type GuestLog struct {
	mu    sync.Mutex
	lines []Line
	next  int
	total int64
	// spent is how much of the burst was used when a line was last let through;
	// lost are those that were not since.
	spent float64
	at    time.Time
	lost  int
}

// admit says whether a guest may say one more line now, and how many lines were
// lost before it.
func (w *GuestLog) admit(now time.Time) (ok bool, lost int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spent = max(w.spent-wordsPerRate*now.Sub(w.at).Seconds(), 0)
	w.at = now
	if w.spent+1 > wordsBurst {
		w.lost++
		return false, 0
	}
	w.spent++
	lost, w.lost = w.lost, 0
	return true, lost
}

func (w *GuestLog) add(level slog.Level, digest, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total++
	line := Line{w.total, time.Now(), level, digest, message}
	if len(w.lines) < maxWords {
		w.lines = append(w.lines, line)
		return
	}
	w.lines[w.next] = line
	w.next = (w.next + 1) % maxWords
}

// Lines returns the lines, oldest first.
func (w *GuestLog) Lines() []Line {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(append([]Line(nil), w.lines[w.next:]...), w.lines[:w.next]...)
}

// GuestLogs holds the words of Policies by name.
type GuestLogs struct {
	mu sync.Mutex
	by map[string]*GuestLog
}

// Of is the guest log of a Policy.
func (s *GuestLogs) Of(name string) *GuestLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[string]*GuestLog{}
	}
	if s.by[name] == nil {
		s.by[name] = new(GuestLog)
	}
	return s.by[name]
}

// Forget drops that of a Policy which is gone.
func (s *GuestLogs) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, name)
}
