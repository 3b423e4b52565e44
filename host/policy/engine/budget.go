package engine

import "time"

// Fuel is what guests run on: a unit is about one simple instruction.
type Fuel int64

// PerMillisecond is how much fuel stands for a millisecond. An honest guest
// burns it in less; vet's prices and Most see to it that the dearest code for
// its price takes four times as long at most.
const PerMillisecond Fuel = 1_000_000

// Budgets of what happens once in an instance's life.
const (
	StartBudget    = 20 * PerMillisecond // _initialize
	ManifestBudget = 10 * PerMillisecond
)

// Parts of a budget. A page is 64 KiB of the guest's memory.
const (
	baseBudget    Fuel = 100_000
	rowBudget     Fuel = 2_000
	byteBudget    Fuel = 100
	collectBudget Fuel = 20_000 // to collect garbage, by page
	growBudget    Fuel = 12_000 // to grow the memory, by page
)

// pages is the size of a memory of so many bytes.
func pages(memory uint64) Fuel { return Fuel(memory >> 16) }

// Most is the largest budget of one call within a cycle to a guest that holds
// so much memory; larger asks are split. It stands for 5 ms, and shrinks where
// the memory is larger than a processor's cache, since each load may then take
// a hundred times what it takes at best.
func Most(memory uint64) Fuel {
	const cached = 64 // pages
	p := pages(memory)
	if p <= cached {
		return 5 * PerMillisecond
	}
	return max(PerMillisecond*3/5, 5*PerMillisecond*cached/p)
}

// CallBudget is the fuel of berth_pod, berth_filter, berth_score and their like
// over so many rows and bytes of input.
func CallBudget(rows, input int, memory uint64) Fuel {
	f := baseBudget + rowBudget*Fuel(rows) + byteBudget*Fuel(input) + collectBudget*pages(memory)
	return min(f, Most(memory))
}

// ApplyBudget is the fuel of berth_open and berth_apply, in which a guest may
// have to double its memory and to collect garbage.
func ApplyBudget(input int, memory uint64) Fuel {
	return 5*PerMillisecond + byteBudget*Fuel(input) + (collectBudget+growBudget)*pages(memory)
}

// IdleBudget is the fuel of berth_idle, which collects garbage between cycles.
func IdleBudget(memory uint64) Fuel {
	return PerMillisecond + 2*collectBudget*pages(memory)
}

// ForTime is the fuel of that much time.
func ForTime(d time.Duration) Fuel {
	return Fuel(d.Microseconds()) * PerMillisecond / 1000
}
