package sdk

// Level of a line of log.
type Level uint32

const (
	LevelDebug Level = iota
	LevelInfo
	LevelWarn
	LevelError
)

// Log writes a line to the host's log, under the policy's name. The host cuts
// long lines and drops those beyond a policy's share.
func Log(level Level, text string) { writeLog(level, text) }
