package api

import "time"

// WriteTime is a watcher's patience in tests, which have less of it.
const WriteTime = 3 * time.Second

func init() { writeTime = WriteTime }
