package engine

import (
	"reflect"

	"github.com/tetratelabs/wazero/api"
)

// maxStacks is how much stack an instance may keep between calls beside that of
// the export that was called last.
const maxStacks = 1 << 20

// handle is an export that was looked up, which allocates. wazero keeps a stack
// for each, as large as the deepest call has made it.
type handle struct {
	api.Function
	stack reflect.Value // a slice of wazero's; none where that has moved
	bytes int64         // of it, as reckoned
}

func newHandle(f api.Function) handle {
	h := handle{Function: f}
	if v := reflect.ValueOf(f); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		h.stack = v.Elem().FieldByName("stack")
	}
	return h
}

// size is how large the stack is, below zero where that is not known.
func (h *handle) size() int64 {
	if h.stack.Kind() != reflect.Slice {
		return -1
	}
	return int64(h.stack.Len())
}

// settle reckons with the stack of the handle that was called last. Where that
// has grown, and the instance comes to hold too much, the others' handles go: a
// module that recurses in each export would hold as many stacks.
func (i *Instance) settle(last *handle) {
	size := last.size()
	switch {
	case size == last.bytes:
		return
	case size < 0:
		i.drop(last)
		return
	}
	i.stacks += size - last.bytes
	i.memory.room.add(size - last.bytes)
	last.bytes = size
	if i.stacks-size <= maxStacks {
		return
	}
	for f := range i.funcs {
		if h := &i.funcs[f]; h != last {
			i.drop(h)
		}
	}
	if last != &i.input {
		i.drop(&i.input)
	}
}

// drop gives a handle up; it is looked up again when it is needed.
func (i *Instance) drop(h *handle) {
	i.stacks -= h.bytes
	i.memory.room.add(-h.bytes)
	*h = handle{}
}
