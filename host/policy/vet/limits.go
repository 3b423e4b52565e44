package vet

// PageBytes is the size of a page of guest memory.
const PageBytes = 64 << 10

// Limits bound a module's structure. DefaultLimits leaves room above what
// TinyGo and Go emit; a zero field takes its default.
type Limits struct {
	Bytes        int // the module as uploaded
	Types        int
	Params       int // of one function type
	Results      int // of one function type
	Imports      int
	Functions    int
	BodyBytes    int // one function's code
	Locals       int // of one function, parameters included
	AllLocals    int // the same of all functions: wazero keeps 8 bytes of each
	Nesting      int // blocks within blocks in one function
	Blocks       int // blocks, branches and bulk operations of one function, those of the meter included
	BodyFlow     int // locals times blocks of one function: what the compiler's time goes by
	Flow         int // the same over all functions
	BranchTable  int // targets of one br_table
	BranchTables int // targets of all br_tables of one function
	Tables       int
	TableEntries int // of one table
	Globals      int
	Exports      int
	Elements     int // element segments
	Data         int // data segments
	MemoryBytes  int64
	NoSIMD       bool
}

// DefaultLimits admits what TinyGo and Go compile, several times over.
func DefaultLimits() Limits {
	return Limits{
		Bytes:        16 << 20,
		Types:        4096,
		Params:       64,
		Results:      16,
		Imports:      64,
		Functions:    32768,
		BodyBytes:    512 << 10,
		Locals:       2048,
		AllLocals:    1 << 19,
		Nesting:      2048,
		Blocks:       16384,
		BodyFlow:     3 << 20,
		Flow:         8 << 20,
		BranchTable:  4096,
		BranchTables: 16384,
		Tables:       4,
		TableEntries: 65536,
		Globals:      4096,
		Exports:      1024,
		Elements:     1024,
		Data:         1 << 18,
		MemoryBytes:  64 << 20,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ have, otherwise *int }{
		{&l.Bytes, &d.Bytes}, {&l.Types, &d.Types}, {&l.Params, &d.Params}, {&l.Results, &d.Results},
		{&l.Imports, &d.Imports}, {&l.Functions, &d.Functions}, {&l.BodyBytes, &d.BodyBytes},
		{&l.Locals, &d.Locals}, {&l.AllLocals, &d.AllLocals}, {&l.Nesting, &d.Nesting}, {&l.Blocks, &d.Blocks}, {&l.BodyFlow, &d.BodyFlow}, {&l.Flow, &d.Flow},
		{&l.BranchTable, &d.BranchTable}, {&l.BranchTables, &d.BranchTables}, {&l.Tables, &d.Tables},
		{&l.TableEntries, &d.TableEntries}, {&l.Globals, &d.Globals}, {&l.Exports, &d.Exports},
		{&l.Elements, &d.Elements}, {&l.Data, &d.Data},
	} {
		if *f.have == 0 {
			*f.have = *f.otherwise
		}
	}
	if l.MemoryBytes == 0 {
		l.MemoryBytes = d.MemoryBytes
	}
	return l
}

// pages is the memory cap in pages, at least one.
func (l Limits) pages() uint32 {
	return uint32(min(max(l.MemoryBytes/PageBytes, 1), 65536))
}
