package guest

// Reasons is the table of reasons from a place on, as JSON.
func (in *Instance) Reasons(from uint32) []byte {
	table := in.reasons.table
	if from == 0 {
		from = 1
	}
	if uint64(from) > uint64(len(table)) {
		from = uint32(len(table))
	}
	return manifestReasons(table[from:])
}

// Refusal says why the pod of the cycle was refused as such, where there is more to
// say than the table of reasons does.
func (in *Instance) Refusal() ([]byte, error) {
	if !in.asked {
		return nil, errNoPod
	}
	if in.refuser == nil {
		return manifestReasons(nil), nil
	}
	words := in.refuser.Refusal()
	if words == "" {
		return manifestReasons(nil), nil
	}
	return manifestReasons([]Verdict{RejectFinal(words)}), nil
}

// Explain names all the reasons that hold for the pod of the cycle on a row.
func (in *Instance) Explain(row uint32) ([]byte, error) {
	if in.filter == nil {
		return nil, errKind
	}
	if !in.asked {
		return nil, errNoPod
	}
	if row >= uint32(len(in.rows.Live)) || !in.rows.Live[row] {
		return nil, errRow
	}
	var found []Verdict
	add := func(v Verdict) { found = append(found, v) }
	if in.explain != nil {
		in.explain.Explain(int32(row), add)
		return manifestReasons(found), nil
	}
	if id := in.judge(int32(row)); id != 0 {
		add(in.reasons.Get(id))
	}
	return manifestReasons(found), nil
}

func (in *Instance) judge(slot int32) ReasonID {
	in.row[0] = slot
	in.verdicts = reuse(in.verdicts, 1)
	in.filter.FilterRows(in.row[:], in.verdicts)
	return in.verdicts[0]
}
