package kind

import v1 "k8s.io/api/core/v1"

// Numbers of fields in v1's messages.
const (
	statusOfNode                    = 3
	statusCapacity, statusAllocated = 1, 2
)

// shareAmounts has nodes of equal size share what they can hold: machines come
// in few sizes, and each of the two maps is a fifth of a node. It writes to the
// node itself and to nothing that it may have in common with others.
func shareAmounts(node *v1.Node, data []byte) {
	var status []byte
	for rest := data; len(rest) > 0; {
		number, body, n := fieldAt(rest)
		if n == 0 || number == statusOfNode && status != nil {
			return
		}
		if number == statusOfNode {
			status = body
		}
		rest = rest[n:]
	}
	var capacity, allocatable span
	whole := spans(status, mapsOfStatus, func(number int) *span {
		switch number {
		case statusCapacity:
			return &capacity
		case statusAllocated:
			return &allocatable
		}
		return nil
	})
	if !whole {
		return
	}
	// One map for both, where the machine keeps nothing for itself, is not worth
	// the look: their encodings differ in the field's number.
	sameAmounts.share(capacity.in(status), &node.Status.Capacity)
	sameAmounts.share(allocatable.in(status), &node.Status.Allocatable)
}
