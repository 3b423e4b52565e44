package record

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/berth-dev/berth/host/schedule/chunkqueue"
)

// About is which question is meant: about an object of a resource of the store's,
// by a policy, at a time. Without a policy it is any, without a time the newest.
type About struct {
	Resource, Namespace, Name string
	Policy                    string
	// At is when: the newest question until then is meant.
	At time.Time
}

// Question is one that a controller was asked.
type Question struct {
	About
	// Program is the identity of what answered: module, entry, config, limits.
	Program [32]byte
	// In and Out are what berth_reconcile was given and what it answered. Out is
	// empty where it failed, and Failure says how.
	In, Out []byte
	Failure string
}

// entry is a question as it is kept.
type entry struct {
	Question // In and Out are compressed together
	in       int
}

// Log are the newest questions. It may be used from several goroutines.
type Log struct {
	mu   sync.Mutex
	max  int
	list chunkqueue.List[entry]
	lost int
	// Disk keeps what is added, too; nil keeps nothing. It is set before the first.
	Disk *Writer
}

// each is about what an entry takes beside its bytes.
const each = 320

// longest bounds what is unpacked: no guest has the memory for more.
const longest = 1 << 30

// pieceLength is how many questions are let go of at a time.
const pieceLength = 8

// New is a log that takes about so many bytes.
func New(max int) *Log {
	return &Log{max: max, list: chunkqueue.New[entry](pieceLength, each)}
}

// Add keeps a question. Its bytes are copied.
func (l *Log) Add(q Question) {
	e := entry{Question: q, in: len(q.In)}
	whole := make([]byte, 0, len(q.In)+len(q.Out))
	e.In, e.Out = s2.Encode(nil, append(append(whole, q.In...), q.Out...)), nil
	if l.Disk != nil {
		l.Disk.add(e)
	}
	holds := len(e.In) + len(q.Failure)
	l.mu.Lock()
	defer l.mu.Unlock()
	if holds > l.max {
		l.lost++
		return
	}
	l.list.Add(e, holds)
	for l.list.Bytes() > l.max {
		gone := l.list.Drop()
		if gone == nil {
			return
		}
		l.lost += len(gone)
	}
}

// Bytes is about what the log takes.
func (l *Log) Bytes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list.Bytes()
}

// OutsideError says that the log holds no such question.
type OutsideError struct {
	About
	// Oldest is from when on the log reaches; zero if nothing was lost.
	Oldest time.Time
	// First is the oldest question about the object that is there, zero if none is.
	First time.Time
	// Recording is the directory of the recording in which none is either, if there is
	// one.
	Recording string
}

const clock = "2006-01-02T15:04:05.000Z07:00"

func (e *OutsideError) Error() string {
	what := strings.TrimPrefix(e.Namespace+"/"+e.Name, "/")
	text := fmt.Sprintf("no controller was asked about %s %s", e.Resource, what)
	if e.Policy != "" {
		text = fmt.Sprintf("policy %s was not asked about %s %s", e.Policy, e.Resource, what)
	}
	if !e.At.IsZero() {
		text += " by " + e.At.Format(clock)
	}
	switch {
	case e.Recording != "":
		return text + ", as far as the recording in " + e.Recording + " tells"
	case !e.First.IsZero():
		text += ", as far as the log reaches: the oldest question kept is of " + e.First.UTC().Format(clock)
	case !e.Oldest.IsZero():
		text += ", as far as the log reaches, which is to " + e.Oldest.UTC().Format(clock)
	default:
		return text
	}
	return text + "; start the host with --record DIR to keep all, or with a larger --log-memory"
}

// Find is the newest question that is meant.
func (l *Log) Find(about About) (*Question, error) {
	found, err := l.find(&about)
	if err != nil {
		return nil, err
	}
	return found.unpack()
}

func (e *entry) unpack() (*Question, error) {
	damaged := errors.New("the log of questions is damaged")
	if n, err := s2.DecodedLen(e.In); err != nil || n > longest || e.in < 0 || e.in > n {
		return nil, errors.Join(damaged, err)
	}
	whole, err := s2.Decode(nil, e.In)
	if err != nil {
		return nil, errors.Join(damaged, err)
	}
	q := e.Question
	q.In, q.Out = whole[:e.in:e.in], whole[e.in:]
	return &q, nil
}

func (l *Log) find(about *About) (entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	outside := &OutsideError{About: *about}
	for i := l.list.Len() - 1; i >= 0; i-- {
		e := l.list.At(i)
		if e.Resource != about.Resource || e.Namespace != about.Namespace || e.Name != about.Name || about.Policy != "" && e.Policy != about.Policy {
			continue
		}
		if about.At.IsZero() || !e.At.After(about.At) {
			return *e, nil
		}
		outside.First = e.At
	}
	if l.lost > 0 && l.list.Len() > 0 {
		outside.Oldest = l.list.At(0).At
	}
	return entry{}, outside
}

// All calls fn with each question that is kept, from the oldest on, as About.
func (l *Log) All(fn func(About)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.list.Len() {
		fn(l.list.At(i).About)
	}
}
