package sandbox

import (
	"bytes"
	"context"
	"errors"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
)

// depends is what the guest said last of what its answers depend on.
type depends struct {
	// always says that it is all that the policy reads, whatever the pod.
	always bool
	text   []byte
	known  *abi.Depends
}

// namedGroups are those of which a part may matter.
const namedGroups = abi.NodeLabels | abi.NodeName

// Depends implements framework.Depender.
func (s *Sandbox) Depends(ctx context.Context) (*abi.Depends, error) {
	if s.info.Reads&namedGroups == 0 || s.depends.always || !s.module.Has(engine.FuncDepends) {
		return nil, nil
	}
	if s.instance == nil {
		return nil, errNotOpen
	}
	r, err := s.call(engine.FuncDepends, nil, engine.Budget(0, 0, s.instance.MemoryBytes(), s.most))
	if errors.Is(err, errWorn) {
		if err = s.reopen(ctx, err); err == nil {
			return s.Depends(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return s.readDepends(r.Out)
}

func (s *Sandbox) readDepends(out []byte) (*abi.Depends, error) {
	d := &s.depends
	if d.always = len(out) == 0; d.always {
		return nil, nil
	}
	if bytes.Equal(d.text, out) {
		return d.known, nil
	}
	known, err := abi.ReadDepends(out, s.info.Reads)
	if err != nil {
		return nil, s.fail(err)
	}
	d.text, d.known = append(d.text[:0], out...), known
	return known, nil
}
