package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/controller/record"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// asked is question number n about an object, n seconds after noon, which says so.
func asked(policy, name string, n int) record.Question {
	return record.Question{
		About: record.About{Resource: "deployments.apps", Namespace: "default", Name: name, Policy: policy, At: noon.Add(time.Duration(n) * time.Second)},
		In:    fmt.Appendf(nil, "question %d of %s", n, name), Out: fmt.Appendf(nil, "answer %d", n),
	}
}

func TestAQuestionIsFoundByNameAndTime(t *testing.T) {
	t.Parallel()
	l := record.New(1 << 20)
	for i := range 10 {
		l.Add(asked("Deployment", "web", i))
		l.Add(asked("Deployment", "db", i))
	}
	failed := asked("Other", "web", 10)
	failed.Out, failed.Failure = nil, "it trapped"
	l.Add(failed)
	at := func(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
	for _, tt := range []struct {
		name  string
		about record.About
		want  string
	}{
		{"the last of all", record.About{Name: "web"}, "question 10 of web,,it trapped"},
		{"the last of a policy", record.About{Name: "web", Policy: "Deployment"}, "question 9 of web,answer 9,"},
		{"at a time", record.About{Name: "web", At: at(3)}, "question 3 of web,answer 3,"},
		{"between two", record.About{Name: "db", At: at(3.7)}, "question 3 of db,answer 3,"},
		{"before the first", record.About{Name: "web", At: at(-1)}, "error: no controller was asked about deployments.apps default/web by 2026-03-01T11:59:59.000Z, as far as the log reaches: the oldest question kept is of 2026-03-01T12:00:00.000Z; start the host with --record DIR to keep all, or with a larger --log-memory"},
		{"of nothing", record.About{Name: "none"}, "error: no controller was asked about deployments.apps default/none"},
		{"of a policy that was not asked", record.About{Name: "db", Policy: "Other"}, "error: policy Other was not asked about deployments.apps default/db"},
	} {
		tt.about.Resource, tt.about.Namespace = "deployments.apps", "default"
		q, err := l.Find(tt.about)
		got := fmt.Sprint("error: ", err)
		if err == nil {
			got = fmt.Sprintf("%s,%s,%s", q.In, q.Out, q.Failure)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// However much is asked, the log takes what it may, and of what went it says so.
func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	const most = 256 << 10
	l := record.New(most)
	noise := make([]byte, 8<<10) // of which nothing is saved by compression
	for i := range noise {
		noise[i] = byte(i*i>>3 ^ i*7 ^ i>>5)
	}
	for i := range 200 {
		q := asked("Deployment", "web", i)
		for k := range noise {
			noise[k] = noise[k]*31 + byte(k>>2) + byte(i)
		}
		q.In = append(q.In, noise...)
		l.Add(q)
		if got := l.Bytes(); got > most+pieces*(len(q.In)+1000) {
			t.Fatalf("after %d questions it takes %d bytes, want %d at most", i+1, got, most)
		}
	}
	var outside *record.OutsideError
	_, err := l.Find(record.About{Resource: "deployments.apps", Namespace: "default", Name: "web", At: noon})
	if !errors.As(err, &outside) || !outside.First.After(noon) || !strings.Contains(err.Error(), "the oldest question kept is of 2026-03-01T12:0") {
		t.Errorf("the first question: %v", err)
	}
	_, err = l.Find(record.About{Resource: "deployments.apps", Namespace: "default", Name: "db"})
	if !errors.As(err, &outside) || outside.Oldest.IsZero() {
		t.Errorf("what may have been lost: %v", err)
	}
	last, err := l.Find(record.About{Resource: "deployments.apps", Namespace: "default", Name: "web"})
	if err != nil || !bytes.HasSuffix(last.In, noise) || string(last.Out) != "answer 199" {
		t.Errorf("the last question has %d bytes, and %q was answered: %v", len(last.In), last.Out, err)
	}
	large := asked("Deployment", "large", 1)
	for i := range 8 << 20 {
		large.In = append(large.In, byte(i*i>>7)^byte(i*2654435761>>13))
	}
	l.Add(large)
	if _, err := l.Find(record.About{Resource: "deployments.apps", Namespace: "default", Name: "web"}); err != nil {
		t.Errorf("one that is larger than all drove out the others: %v", err)
	}
}

// pieces is how many questions may lie in the piece that is filled.
const pieces = 8
