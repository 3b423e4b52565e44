package vet

// RewriteExactly charges each instruction by itself, as it runs. Charges cost
// nothing, so that the sum is the price of the instructions that ran.
func RewriteExactly(wasm []byte) ([]byte, error) { return rewriteFree(wasm, true) }

// RewriteTightly charges as Rewrite does, but what it charges for the charges.
func RewriteTightly(wasm []byte) ([]byte, error) { return rewriteFree(wasm, false) }

func rewriteFree(wasm []byte, exact bool) ([]byte, error) {
	m := newModule(Limits{Blocks: 1 << 30, BodyFlow: 1 << 40, Flow: 1 << 40})
	m.chargePrice, m.exact, m.eager = 0, exact, true
	if err := m.read(wasm); err != nil {
		return nil, err
	}
	out, err := m.write()
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Frames rewrites a module, and gives what a call of each function is reckoned
// to take of the stack.
func Frames(wasm []byte) ([]byte, []int64, error) {
	m := newModule(Limits{})
	var frames []int64
	m.framed = func(bytes int64) { frames = append(frames, bytes) }
	if err := m.read(wasm); err != nil {
		return nil, nil, err
	}
	out, err := m.write()
	if err != nil {
		return nil, nil, err
	}
	return out, frames, nil
}

// StackBytes is how much stack a guest may take.
const StackBytes = stackBytes
