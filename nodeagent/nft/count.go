package nft

import (
	"errors"
	"fmt"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// Connections counts, by fronts, the new connections that came to them since the
// kernel has them: those that were refused, too, and for UDP the flows. Fronts that
// are pinned are no services'.
//
// The elements that count are beside those that say where connections go, which
// are replaced as backends come and go. They are read without holding up changes.
func (k *Kernel) Connections() (map[forward.Front]uint64, error) {
	out := map[forward.Front]uint64{}
	var errs []error
	for _, t := range k.tables {
		errs = append(errs, t.count(out))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("count connections to services: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.tables {
		for front := range t.pinned {
			delete(out, front)
		}
	}
	return out, nil
}

func (t *table) count(out map[forward.Front]uint64) error {
	c, err := t.kernel.reader()
	if err != nil {
		return err
	}
	for _, name := range []string{setCounted, setCountedPorts, setCountedOutsidePorts} {
		list, err := c.GetSetElements(t.sets[name])
		if err != nil {
			return err
		}
		for i := range list {
			if front, ok := t.frontOf(string(list[i].Key)); ok && list[i].Counter != nil {
				out[front] += list[i].Counter.Packets
			}
		}
	}
	return nil
}
