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
