package engine

import "time"

// Fuel is what guests run on: a unit is about one simple instruction.
type Fuel int64

// PerMillisecond is how much fuel an honest guest burns in a millisecond. What
// one unit takes differs by the kind of work; vet's prices keep a module that
// does nothing but the dearest for its price within four times of this.
const PerMillisecond Fuel = 1_000_000

// Budgets of calls whose size does not depend on rows.
const (
	StartBudget    = 400 * PerMillisecond // instantiation, once
	ManifestBudget = 50 * PerMillisecond
	OpenBudget     = 50 * PerMillisecond
	// IdleBudget lets the collector run over a large memory, between cycles.
	IdleBudget = 100 * PerMillisecond
	// MostBudget is what one call within a cycle may get; larger asks are split.
	MostBudget = 5 * PerMillisecond
)

// Parts of a call's budget.
const (
	baseBudget       Fuel = 100_000
	rowBudget        Fuel = 2_000
	byteBudget       Fuel = 50
	memoryPageBudget Fuel = 4_000 // for the collector, by 64 KiB of memory
)

// Budget is the fuel of a call over so many rows and bytes of input, to a guest
// that holds so much memory; most bounds it, MostBudget by default.
func Budget(rows, input int, memory uint64, most Fuel) Fuel {
	if most <= 0 {
		most = MostBudget
	}
	f := baseBudget + rowBudget*Fuel(rows) + byteBudget*Fuel(input) + memoryPageBudget*Fuel(memory>>16)
	return min(f, most)
}

// ForTime is the fuel of that much time.
func ForTime(d time.Duration) Fuel {
	return Fuel(d.Microseconds()) * PerMillisecond / 1000
}
