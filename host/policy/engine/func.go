package engine

// Func is an export that a host calls.
type Func uint8

const (
	FuncManifest Func = iota
	FuncOpen
	FuncApply
	FuncPod
	FuncFilter
	FuncScore
	FuncWhatIf
	FuncReasons
	FuncExplain
	FuncGate
	FuncIdle
	FuncError
	FuncReconcile
	FuncAt
	FuncDepends
	numFuncs
)

// answer is what an export gives back.
type answer uint8

const (
	answerStatus answer = iota // a u32, 0 is good
	answerRange                // ptr<<32 | len
	answerPacked               // a u64 that means what the ABI says
	answerNumber               // a u32, packed
)

// argument is what an export takes.
type argument uint8

const (
	takesNothing argument = iota
	takesInput            // the length of what lies at berth_input's address
	takesNumber
)

// Sizes of answers in bytes.
const (
	maxAnswer   = 4 << 20
	maxManifest = 256 << 10
	maxText     = 4 << 10
	maxDepends  = 64 << 10
	// MaxInput bounds what the host sends in one call.
	MaxInput = 16 << 20
)

var funcs = [numFuncs]struct {
	export string
	takes  argument
	gives  answer
	most   uint32 // bytes of a range
}{
	FuncManifest:  {"berth_manifest", takesNothing, answerRange, maxManifest},
	FuncOpen:      {"berth_open", takesInput, answerStatus, 0},
	FuncApply:     {"berth_apply", takesInput, answerStatus, 0},
	FuncPod:       {"berth_pod", takesInput, answerPacked, 0},
	FuncFilter:    {"berth_filter", takesInput, answerRange, maxAnswer},
	FuncScore:     {"berth_score", takesInput, answerRange, maxAnswer},
	FuncWhatIf:    {"berth_whatif", takesInput, answerRange, maxAnswer},
	FuncReasons:   {"berth_reasons", takesNumber, answerRange, maxManifest},
	FuncExplain:   {"berth_explain", takesInput, answerRange, maxManifest},
	FuncGate:      {"berth_gate", takesInput, answerRange, maxAnswer},
	FuncIdle:      {"berth_idle", takesNothing, answerStatus, 0},
	FuncError:     {"berth_error", takesNothing, answerRange, maxText},
	FuncReconcile: {"berth_reconcile", takesInput, answerRange, maxAnswer},
	FuncAt:        {"berth_at", takesNothing, answerNumber, 0},
	FuncDepends:   {"berth_depends", takesNothing, answerRange, maxDepends},
}

// inputExport says where the host puts what an export takes.
const inputExport = "berth_input"

// String is the export's name.
func (f Func) String() string {
	if f >= numFuncs {
		return "berth_?"
	}
	return funcs[f].export
}
