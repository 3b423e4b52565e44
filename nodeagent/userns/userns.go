// Package userns gives each pod that wants a user namespace a range of the
// machine's user and group ids of its own, as the kubelet does (KEP-127).
//
// A range is written into the pod's folder before it is used, so that it is the
// same after a restart of the agent, and free again once the folder is gone.
package userns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
)

// Length is how many ids a pod gets.
const Length = 65536

// slots are the ranges of a machine: the first is the machine's own, and the
// last holds an id that means none.
const (
	firstSlot = 1
	endSlot   = 1<<32/Length - 1
)

// file lies in the folder of each pod that has a range.
const file = "userns"

// Range says that ids from 0 to Length-1 in a pod are those from First on of the
// machine. The zero Range is the machine's own ids.
type Range struct {
	First  uint32 `json:"first"`
	Length uint32 `json:"length"`
}

// IsHost says whether there is no mapping.
func (r Range) IsHost() bool { return r.Length == 0 }

// check refuses what Take can not have given.
func (r Range) check() error {
	if slot := r.First / Length; r.Length != Length || r.First%Length != 0 || slot < firstSlot || slot >= endSlot {
		return fmt.Errorf("%d ids from %d on are no range for a pod", r.Length, r.First)
	}
	return nil
}

// Ranges gives out ranges.
type Ranges struct {
	root string

	mu     sync.Mutex
	byPod  map[string]Range
	taken  map[uint32]bool // by slot
	random func(n int) int
}

// Open finds the ranges of the pods whose folders lie in root. One that can not
// be read is an error beside the others: its pod's ids may be given twice.
func Open(root string) (*Ranges, error) {
	r := &Ranges{root: root, byPod: map[string]Range{}, taken: map[uint32]bool{}, random: rand.IntN}
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("find user namespaces: %w", err)
	}
	var errs []error
	for _, e := range entries {
		one, err := read(filepath.Join(root, e.Name(), file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("user namespace of pod %s: %w", e.Name(), err))
			continue
		}
		r.byPod[e.Name()], r.taken[one.First/Length] = one, true
	}
	return r, errors.Join(errs...)
}

func read(path string) (Range, error) {
	var r Range
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, err
	}
	return r, r.check()
}

// Take gives a pod its range: the one that it has, or a new one.
func (r *Ranges) Take(uid string) (Range, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, ok := r.byPod[uid]; ok {
		return have, nil
	}
	slot, err := r.free()
	if err != nil {
		return Range{}, err
	}
	one := Range{First: slot * Length, Length: Length}
	if err := write(filepath.Join(r.root, uid), one); err != nil {
		return Range{}, fmt.Errorf("create user namespace: %w", err)
	}
	r.byPod[uid], r.taken[slot] = one, true
	return one, nil
}

// free looks for a slot from a random one on: agents that share a machine, and
// pods that follow each other, then seldom have the same ids.
func (r *Ranges) free() (uint32, error) {
	const n = endSlot - firstSlot
	from := r.random(n)
	for i := range n {
		if slot := uint32(firstSlot + (from+i)%n); !r.taken[slot] {
			return slot, nil
		}
	}
	return 0, errors.New("could not find an empty slot to allocate a user namespace")
}

// write puts the range where a crash leaves it whole or not at all.
func write(dir string, one Range) error {
	data, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	temp := filepath.Join(dir, file+".new")
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, file)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Release gives back a pod's range, once nothing of the pod is left.
func (r *Ranges) Release(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one, ok := r.byPod[uid]; ok {
		delete(r.byPod, uid)
		delete(r.taken, one.First/Length)
	}
}
