//go:build !wasip1

package sdk

import "os"

// writeLog serves tests that run natively.
func writeLog(level Level, text string) {
	_, _ = os.Stderr.WriteString([...]string{"debug", "info", "warn", "error"}[level&3] + " " + text + "\n")
}
