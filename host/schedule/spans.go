package schedule

// Spans are slots in rising order, as the first slot and the length of each run
// of them: a policy that fails leaves thousands of rows, mostly side by side.
type Spans []int32

func spansOf(slots []int32) Spans {
	var s Spans
	for i, slot := range slots {
		if i > 0 && slot == slots[i-1]+1 {
			s[len(s)-1]++
			continue
		}
		s = append(s, slot, 1)
	}
	return s[:len(s):len(s)]
}

// within lists the slots below end. What lies out of order, as in a spoilt
// record, is left out.
func (s Spans) within(end int32) []int32 {
	var slots []int32
	next := int32(0)
	for ; len(s) >= 2; s = s[2:] {
		if s[0] < next {
			continue
		}
		for next = s[0]; next < end && next-s[0] < s[1]; next++ {
			slots = append(slots, next)
		}
	}
	return slots
}
