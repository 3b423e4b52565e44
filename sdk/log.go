package sdk

// Level of a line of log.
type Level uint32

// The levels, as `berth policy logs --level` names them.
const (
	LevelDebug Level = iota
	LevelInfo
	LevelWarn
	LevelError
)

// Log writes a line to the host's log, under the policy's name. The host cuts
// long lines and drops those beyond a policy's share. A line costs fuel: say
// what is strange, not what is asked.
//
//	sdk.Log(sdk.LevelWarn, "no price on node "+node.Name())
func Log(level Level, text string) { writeLog(level, text) }
