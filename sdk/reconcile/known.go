package reconcile

// known is a list of objects that was read, in which those of the next one are found
// again: of thousands of children few have changed between two questions, and one
// of the same UID and resourceVersion is what it was.
//
// Each object is one of its own in memory: from a pointer into a large one a
// collector would have to look for its beginning.
type known struct {
	list, next []*Object
	// at is where in list the next object is looked for first: the order seldom
	// changes.
	at    int
	round uint32
	// spare are objects that nobody has any more.
	spare []*Object
	// steal has objects of list overwritten that were not found again: the list was
	// another parent's.
	steal bool
	// slots finds objects of list by their UIDs, by open addressing; 0 is free, else
	// the place and one. It is made when it is first needed.
	slots   []uint32
	slotted bool
	given   []*Object
}

func (k *known) begin(another bool) {
	k.next, k.at, k.slotted, k.steal = k.next[:0], 0, false, another
	k.round++
}

// find returns the object of a UID and that it was known, or the memory for one. Each
// is found once: a list may have one twice, as two kinds.
func (k *known) find(uid string) (o *Object, before bool) {
	i := k.at
	if i >= len(k.list) || k.list[i].UID != uid || k.list[i].round == k.round {
		i = k.lookUp(uid)
	}
	if i >= 0 {
		k.at, o = i+1, k.list[i]
	} else {
		o = k.memory()
	}
	o.round = k.round
	return o, i >= 0
}

func (k *known) memory() *Object {
	if n := len(k.spare); n > 0 {
		o := k.spare[n-1]
		k.spare = k.spare[:n-1]
		return o
	}
	for n := len(k.list); k.steal && n > k.at; n = len(k.list) {
		o := k.list[n-1]
		k.list = k.list[:n-1]
		if o.round != k.round {
			return o
		}
	}
	return new(Object)
}

// lookUp is where in the list the object of a UID is, -1 where it is not.
func (k *known) lookUp(uid string) int {
	if len(k.list) == 0 {
		return -1
	}
	if !k.slotted {
		k.fill()
	}
	mask := len(k.slots) - 1
	for at := hash(uid) & mask; k.slots[at] != 0; at = (at + 1) & mask {
		if i := int(k.slots[at] - 1); i < len(k.list) && k.list[i].UID == uid && k.list[i].round != k.round {
			return i
		}
	}
	return -1
}

func (k *known) fill() {
	size := 16
	for size < 2*len(k.list) {
		size *= 2
	}
	if size > len(k.slots) {
		k.slots = make([]uint32, size)
	} else {
		clear(k.slots)
	}
	mask := len(k.slots) - 1
	for i, o := range k.list {
		at := hash(o.UID) & mask
		for k.slots[at] != 0 {
			at = (at + 1) & mask
		}
		k.slots[at] = uint32(i + 1)
	}
	k.slotted = true
}

// hash is of a UID's end: the host makes them up by chance.
func hash(uid string) int {
	h := uint32(2166136261)
	for i := max(0, len(uid)-8); i < len(uid); i++ {
		h = (h ^ uint32(uid[i])) * 16777619
	}
	return int((h ^ h>>15) & 0x7fffffff)
}

// end returns what was read. The list is a copy: a controller may sort its own.
func (k *known) end() []*Object {
	for _, o := range k.list {
		if o.round != k.round {
			k.spare = append(k.spare, o)
		}
	}
	k.list, k.next = k.next, k.list
	k.given = append(k.given[:0], k.list...)
	return k.given
}
