package vet

// calls are the edges of one function: whom it calls by name, and whether it
// calls through a table.
type calls struct {
	direct   []uint32
	indirect bool
}

// recursive finds the functions that may call themselves, by whatever way. A
// call through a table may reach each function that a table or a reference may
// hold. Tarjan's algorithm, with a stack of its own: a module chooses how deep
// it goes.
func recursive(edges []calls, imports int, taken []uint32) []bool {
	g := graph{imports: imports, taken: taken, edges: edges}
	n := len(edges) + 1
	g.order, g.low, g.onStack = make([]int, n), make([]int, n), make([]bool, n)
	g.found = make([]bool, n)
	for v := range n {
		if g.order[v] == 0 {
			g.visit(v)
		}
	}
	return g.found[:len(edges)]
}

type graph struct {
	imports int
	taken   []uint32
	edges   []calls
	order   []int // of discovery, from 1
	low     []int
	onStack []bool
	stack   []int
	found   []bool
	next    int
}

// successor is the i-th function that v calls; the last node stands for tables.
func (g *graph) successor(v, i int) (w int, ok bool) {
	table := len(g.edges)
	list := g.taken
	if v < table {
		list = g.edges[v].direct
		if i == len(list) && g.edges[v].indirect {
			return table, true
		}
	}
	if i >= len(list) {
		return 0, false
	}
	return int(list[i]) - g.imports, true
}

func (g *graph) enter(v int) {
	g.next++
	g.order[v], g.low[v] = g.next, g.next
	g.stack = append(g.stack, v)
	g.onStack[v] = true
}

func (g *graph) visit(root int) {
	type step struct{ v, i int }
	path := []step{{root, 0}}
	g.enter(root)
	for len(path) > 0 {
		s := &path[len(path)-1]
		w, ok := g.successor(s.v, s.i)
		if !ok {
			g.leave(s.v)
			path = path[:len(path)-1]
			if len(path) > 0 {
				up := path[len(path)-1].v
				g.low[up] = min(g.low[up], g.low[s.v])
			}
			continue
		}
		s.i++
		switch {
		case w < 0: // an import
		case w == s.v:
			g.found[w] = true
		case g.order[w] == 0:
			g.enter(w)
			path = append(path, step{w, 0})
		case g.onStack[w]:
			g.low[s.v] = min(g.low[s.v], g.order[w])
		}
	}
}

// leave takes a circle off the stack once its first node is done.
func (g *graph) leave(v int) {
	if g.low[v] != g.order[v] {
		return
	}
	circle := g.stack[len(g.stack)-1] != v
	for {
		w := g.stack[len(g.stack)-1]
		g.stack = g.stack[:len(g.stack)-1]
		g.onStack[w] = false
		g.found[w] = g.found[w] || circle
		if w == v {
			return
		}
	}
}
