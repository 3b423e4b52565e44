package engine

import "time"

// Fuel is what guests run on: a unit is about one simple instruction.
type Fuel int64

// PerMillisecond is how much fuel stands for a millisecond. Ordinary code burns
// it in a quarter of one; vet's prices and Most see to it that the dearest code
// for its price takes four at most.
const PerMillisecond Fuel = 1_600_000

// slice is how much fuel a guest that holds so much memory burns at most before
// Go gets its turn: about a millisecond of the dearest code.
func slice(memory uint64) Fuel {
	const most, cached, least = PerMillisecond / 4, 32, 16 // pages; a share
	return most / min(max(pages(memory)/cached, 1), least)
}

// Budgets that do not depend on rows. Those of what happens once in an
// instance's life are larger.
const (
	StartBudget    = 8 * PerMillisecond // _initialize
	ManifestBudget = 5 * PerMillisecond
	OpenBudget     = 8 * PerMillisecond
	// MostBudget is what one call within a cycle gets at most by default.
	MaxBudget = 5 * PerMillisecond
)

// Parts of a budget. A page is 64 KiB of the guest's memory.
const (
	baseBudget    Fuel = 100_000
	rowBudget     Fuel = 4_000
	byteBudget    Fuel = 100
	collectBudget Fuel = 400_000 // to collect garbage, by page
	growBudget    Fuel = 24_000  // to grow the memory, by page

	// leastBudget lets a guest whose memory is small collect and double it in
	// whichever call fills it. A page of small objects took 500,000 to collect.
	leastBudget = 4 * PerMillisecond

	// maxCollect bounds what collecting may take in one call outside of a
	// cycle, unless the cluster is so large that an honest guest needs more.
	maxCollect = 40 * PerMillisecond
	// slotBudget is for the tables of a cluster, by node; slotCollect is by how
	// much collecting may exceed maxCollect then: what it takes to collect the
	// memory that is warranted by node.
	slotBudget  Fuel = 4_000
	slotCollect Fuel = warrantedBySlot * collectBudget / (64 << 10)
	// tableBudget is for making those tables, or moving them, in one call.
	tableBudget Fuel = 2_000

	// objectBudget is for an object that a gate or a controller is asked about,
	// such as one of thousands whose JSON it compares.
	objectBudget Fuel = 400_000
	// leastReconciled is for 500 creations, which took the dearest of the built-in
	// controllers 42 million units, as its heap grew.
	leastReconciled = 250

	// bulkBudget is for a batch of more than bulkRows, with which a guest is told
	// a cluster: its tables move to larger places, and each move may collect.
	bulkBudget = 2 * MaxBudget
	bulkRows   = 16
)

// pages is the size of a memory of so many bytes.
func pages(memory uint64) Fuel { return Fuel(memory >> 16) }

// Most is what most comes to for a guest that holds so much memory. It shrinks
// where that is larger than a processor's cache, since each load may then take
// a hundred times what it takes at best.
func Most(most Fuel, memory uint64) Fuel {
	const cached, beyond, least = 64, 24, 16 // pages; the last is a share
	if p := pages(memory); p > cached {
		return max(most*beyond/p, most/least)
	}
	return most
}

// grown is what a call may still burn whose guest has come to so much memory in
// its course. Budgets for more than a call within a cycle reckon with growth.
func grown(budget Fuel, memory uint64) Fuel {
	if budget > MaxBudget {
		return budget
	}
	return Most(budget, memory)
}

// Budget is the fuel of a call over so many rows and bytes of input, to a guest
// that holds so much memory: a base, what rows and bytes take, and a share for
// its collector; no less than a young guest needs. Most bounds it; larger asks
// are split by rows.
func Budget(rows, input int, memory uint64, most Fuel) Fuel {
	if most <= 0 {
		most = MaxBudget
	}
	f := baseBudget + rowBudget*Fuel(rows) + byteBudget*Fuel(input) + collectBudget*pages(memory)
	// A call that is allowed more than the usual gets it: why else was it raised?
	return min(max(f, leastBudget, most/5*4), Most(most, memory))
}

// ApplyBudget is the fuel of berth_apply, in which a guest may have to double
// its memory and to collect garbage. It is outside of what a decision waits for
// each time. slots is how many nodes the guest is told of: their tables are
// made at once, when it has little memory yet.
func ApplyBudget(rows, input int, memory uint64, slots int) Fuel {
	base := MaxBudget
	if rows > bulkRows {
		base = bulkBudget
	}
	f := base + rowBudget*Fuel(rows) + byteBudget*Fuel(input) + growBudget*pages(memory) + tableBudget*Fuel(slots) + collecting(2*memory, slots)
	return warranted(f, memory, slots)
}

// AskBudget is the fuel of a call about objects, outside of cycles: an instance
// that was opened just now comes to its size in it, collecting on the way, and is
// told nothing before. slots are those that the largest call so far gave reason
// for: it may hold the memory that it came to then.
func AskBudget(objects, slots, input int, memory uint64) Fuel {
	slots = max(slots, SlotsOf(objects))
	return ApplyBudget(objects, input, memory, slots) + warranted(objectBudget*Fuel(objects), memory, slots)
}

// Reconciled is about how many objects a controller may be at work when it is
// asked about so many: a parent that has no children yet may want hundreds.
func Reconciled(objects int) int { return max(objects, leastReconciled) }

// SlotsOf is how many nodes' rows take as much of a guest's memory as so many
// whole objects, in a heap that grows by doubling.
func SlotsOf(objects int) int { return 3 * objects }

// SlotsOfPods is how many nodes' rows take as much of a guest's memory as so many
// placed pods of which each has labels of its own.
func SlotsOfPods(pods int) int { return pods / 2 }

// SlotsOfObjects is how many nodes' rows take as much of a guest's memory as so many
// cluster objects of which each has labels or a selector of its own.
func SlotsOfObjects(objects int) int { return objects / 2 }

// IdleBudget is the fuel of berth_idle, which collects garbage between cycles.
func IdleBudget(memory uint64, slots int) Fuel {
	return warranted(MaxBudget+collecting(memory, slots), memory, slots)
}

// warranted shrinks a budget for a guest that holds more memory than a cluster
// of so many nodes can be the reason for. Each of its loads may miss all caches,
// so what it means to take in milliseconds it may take in seconds.
func warranted(f Fuel, memory uint64, slots int) Fuel {
	reason := warrantedBytes(slots)
	if have := Fuel(memory); have > reason {
		part := 1 << 10 * reason / have
		return f >> 20 * part * part
	}
	return f
}

// warrantedBySlot is the memory that a node can be the reason for.
const warrantedBySlot = 4 << 10

// warrantedBytes is the memory that a cluster of so many nodes can be the reason for.
func warrantedBytes(slots int) Fuel {
	const some = 16 << 20 // of any guest
	return some + warrantedBySlot*Fuel(slots)
}

// Outgrown says whether a guest comes near the memory from which on its budgets
// shrink, so that a collection that it needs may not end.
func Outgrown(memory uint64, slots int) bool {
	return Fuel(memory) > warrantedBytes(slots)*3/4
}

// collecting is for collecting twice, and for making tables for so many nodes.
func collecting(memory uint64, slots int) Fuel {
	return slotBudget*Fuel(slots) + min(3*collectBudget*pages(memory), max(maxCollect, slotCollect*Fuel(slots)))
}

// maxRows is how many rows one call asks about at most.
const maxRows = 2000

// RowsACall is how many rows a guest that holds so much memory can be asked
// about in one call of that budget.
func RowsACall(memory uint64, most Fuel) int {
	if most <= 0 {
		most = MaxBudget
	}
	return int(min(max(Most(most, memory)/rowBudget, 1), maxRows))
}

// questionRow is what a row may take on the average of all that a policy is asked
// about at once: a predicate that makes a map for each row was seen to take 37,600.
const questionRow Fuel = 40_000

// QuestionBudget is what all calls about so many rows may take together, however
// they are split: by row, and a few calls for those that are split too late.
func QuestionBudget(rows int, most Fuel) Fuel {
	if most <= 0 {
		most = MaxBudget
	}
	return 4*most + Fuel(rows)*max(questionRow*(most/1000)/(MaxBudget/1000), 1)
}

// Shrunk is a question's budget for a guest of so much memory: less, where that is
// more than so many nodes are the reason for.
func Shrunk(question Fuel, memory uint64, slots int) Fuel {
	return question * scale / excess(memory, slots)
}

// Dear is what fuel comes to that a guest of so much memory burnt in a question:
// its loads miss the caches where it has no reason to be as large.
func Dear(burnt Fuel, memory uint64, slots int) Fuel { return burnt * excess(memory, slots) / scale }

// scale is what excess is for a guest whose memory is no larger than it may be.
const scale Fuel = 1 << 10

// excess is the square of how many times as large a guest is as it may be for its
// questions about so many nodes, in parts of scale.
func excess(memory uint64, slots int) Fuel {
	const some, each, most = 4 << 20, 2 << 10, 64
	times := min(max(scale*Fuel(memory)/Fuel(some+each*int64(slots)), scale), most*scale)
	return times * times / scale
}

// ForTime is the fuel of that much time.
func ForTime(d time.Duration) Fuel {
	return Fuel(d.Microseconds()) * PerMillisecond / 1000
}
