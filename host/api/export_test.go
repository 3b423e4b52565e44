package api

import "time"

// WriteTime is a watcher's time in tests, which give less of it, as lists
// have with slow clients.
const WriteTime = 3 * time.Second

func init() {
	writeTime, slowAfter = WriteTime, 200*time.Millisecond
	bodyTime, answerTime = 10*time.Second, 10*time.Second
}
