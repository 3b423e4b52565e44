package guest

// At notes which row is being judged, so that a trap names its node. Predicate
// and Priority note it by themselves. Policies that handle rows by themselves
// may, at the head of their loop: it costs one store. Where they do not, the
// host asks again, row by row, to find the one that traps.
func At(slot int32) { note(slot) }
