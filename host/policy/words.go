package policy

import (
	"log/slog"
	"time"
)

// mostWords is how many lines of a guest are kept.
const mostWords = 200

// Line is something that a guest said.
type Line struct {
	At      time.Time  `json:"at"`
	Level   slog.Level `json:"level"`
	Message string     `json:"message"`
}

// words are a guest's last lines.
type words struct {
	lines []Line
	next  int
}

func (w *words) add(level slog.Level, message string) {
	line := Line{time.Now(), level, message}
	if len(w.lines) < mostWords {
		w.lines = append(w.lines, line)
		return
	}
	w.lines[w.next] = line
	w.next = (w.next + 1) % mostWords
}

// all returns the lines, oldest first.
func (w *words) all() []Line {
	return append(append([]Line(nil), w.lines[w.next:]...), w.lines[:w.next]...)
}
