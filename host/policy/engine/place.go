package engine

import "fmt"

// nowhere is -1: the guest is at nothing in particular.
const nowhere = ^uint32(0)

// Watch asks a guest where it keeps the number of what it is at, so that a
// failure can tell. A guest that lacks berth_at stays as it is.
func (i *Instance) Watch(budget Fuel) error {
	if i.module.ExportedFunction(FuncAt.String()) == nil {
		return nil
	}
	r, err := i.Call(FuncAt, nil, budget)
	if err != nil {
		return err
	}
	at := uint32(r.Packed)
	// Not by reading: once a call has ended, the memory may go at any time.
	if at == 0 || uint64(at)+4 > uint64(i.module.Memory().Size()) {
		return &Failure{Digest: i.shared.digest, Export: FuncAt.String(), Kind: Memory, At: -1, Err: fmt.Errorf(
			"it keeps what it is at, at %d, which is outside of its %d bytes of memory", at, i.module.Memory().Size())}
	}
	i.place = at
	return nil
}

// at is what the guest was at when it failed. Its memory is there until the
// instance is closed.
func (i *Instance) at() int32 {
	if i.place == 0 {
		return -1
	}
	n, ok := i.module.Memory().ReadUint32Le(i.place)
	if !ok {
		return -1
	}
	return int32(n)
}
