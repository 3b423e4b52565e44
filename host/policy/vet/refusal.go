package vet

import (
	"fmt"
	"strings"
)

// Rule names what a refused module broke.
type Rule string

const (
	RuleFormat   Rule = "format"   // the bytes are no module
	RuleSize     Rule = "size"     // something exceeds its limit
	RuleFeature  Rule = "feature"  // an instruction or type outside the accepted set
	RuleImport   Rule = "import"   // an import outside the allow-list
	RuleExport   Rule = "export"   // an export is missing, reserved, or has another type
	RuleABI      Rule = "abi"      // another ABI, or none
	RuleStart    Rule = "start"    // a start function
	RuleMemory   Rule = "memory"   // no memory, or more than the cap
	RuleTable    Rule = "table"    // a table may not grow
	RuleReserved Rule = "reserved" // an index beyond the module's own
)

// NoFunction is Refusal.Function where no function is at fault.
const NoFunction = -1

// Refusal says why a module may not run here.
type Refusal struct {
	Rule     Rule
	Function int    // index in the module's function space, or NoFunction
	Name     string // the function's name, where the module gives one
	Offset   int    // in the module, where known
	What     string // what was found
	Got      int64  // with RuleSize: how much
	Limit    int64  // with RuleSize: how much is accepted
	Advice   string // what its author can do
}

func (r *Refusal) Error() string {
	var b strings.Builder
	if r.Function != NoFunction {
		fmt.Fprintf(&b, "function %d", r.Function)
		if r.Name != "" {
			fmt.Fprintf(&b, " (%s)", r.Name)
		}
		b.WriteString(": ")
	}
	b.WriteString(r.What)
	if r.Rule == RuleSize {
		fmt.Fprintf(&b, ": %d, the limit is %d", r.Got, r.Limit)
	}
	if r.Offset > 0 {
		fmt.Fprintf(&b, " (at byte %d)", r.Offset)
	}
	if r.Advice != "" {
		b.WriteString("; ")
		b.WriteString(r.Advice)
	}
	return b.String()
}

func refuse(rule Rule, advice, format string, args ...any) *Refusal {
	return &Refusal{Rule: rule, Function: NoFunction, What: fmt.Sprintf(format, args...), Advice: advice}
}

func tooMany(what string, got uint64, limit int, advice string) *Refusal {
	if got > 1<<62 {
		got = 1 << 62
	}
	return &Refusal{Rule: RuleSize, Function: NoFunction, What: what, Got: int64(got), Limit: int64(limit), Advice: advice}
}

const adviceRebuild = "build it anew with TinyGo or Go; the file may be cut or damaged"
