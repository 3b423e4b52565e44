package store

import (
	"testing"
	"time"
)

func TestALogGivesItsRoomBackOnceHistoryHasPassed(t *testing.T) {
	t.Parallel()
	opts := Options{History: time.Minute}.withDefaults()
	l := newLog(0, &opts)
	began := time.Now()
	for rev := range int64(1000) {
		l.append([]Event{{Revision: rev + 1}}, began)
	}
	if len(l.ring) < 1000 {
		t.Fatalf("the ring has %d places for 1000 events", len(l.ring))
	}
	for rev := range int64(3) {
		l.append([]Event{{Revision: rev + 1001}}, began.Add(time.Minute))
	}
	l.expire(began.Add(time.Minute + time.Second))
	if len(l.ring) != leastRing {
		t.Errorf("the ring has %d places for 3 events, want %d", len(l.ring), leastRing)
	}
	events, seen, _, err := l.read(1000)
	if err != nil || len(events) != 3 || events[0].Revision != 1001 || seen != 1003 {
		t.Errorf("read(1000) = %v, %d, %v, want what came after 1000, up to 1003", events, seen, err)
	}
	for rev := range int64(100) {
		l.append([]Event{{Revision: rev + 1004}}, began.Add(time.Minute))
	}
	if events, ok := l.since(1000); !ok || len(events) != 103 || events[102].Revision != 1103 {
		t.Errorf("since(1000) has %d events, %v, want 103 up to 1103", len(events), ok)
	}
}
