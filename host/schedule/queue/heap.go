package queue

// entryHeap is a heap of entries which know their index in it.
type entryHeap struct {
	list []*Entry
	less func(a, b *Entry) bool
}

// Len implements heap.Interface.
func (h *entryHeap) Len() int { return len(h.list) }

// Less implements heap.Interface.
func (h *entryHeap) Less(i, j int) bool { return h.less(h.list[i], h.list[j]) }

// Swap implements heap.Interface.
func (h *entryHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}

// Push implements heap.Interface.
func (h *entryHeap) Push(x any) {
	e := x.(*Entry)
	e.index = len(h.list)
	h.list = append(h.list, e)
}

// Pop implements heap.Interface.
func (h *entryHeap) Pop() any {
	last := len(h.list) - 1
	e := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	e.index = -1
	return e
}
