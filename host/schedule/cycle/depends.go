package cycle

import (
	"context"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
)

// dependsOf asks a policy what its answers about the cycle's pod depend on; nil is
// all that it reads.
func dependsOf(ctx context.Context, policy framework.Policy) (*abi.Depends, error) {
	if one, ok := policy.(framework.Depender); ok {
		return one.Depends(ctx)
	}
	return nil, nil
}

// place finds the partition for a column whose policy has been asked about the pod:
// by what its answers depend on, so that rows which differ in nothing else are one.
func (d *Decider) place(r *run, col *column) {
	part := d.partitionOf(r, col)
	if part == col.part {
		return
	}
	col.part, col.at = part, part.born.end()
	col.forget()
}

// partitionOf finds the partition for a column. Where a label came by for the first
// time, or there are too many, it is the one by all that the policy reads.
func (d *Decider) partitionOf(r *run, col *column) *partition {
	if part := d.partitionByLabels(r, col); part != nil {
		return part
	}
	col.labels = col.labels[:0]
	return d.partitions.by(col.reads, nil, r.log)
}

func (d *Decider) partitionByLabels(r *run, col *column) *partition {
	col.labels = col.labels[:0]
	if col.depends == nil {
		return nil
	}
	by := make([]abi.LabelDepends, 0, len(col.depends.Labels))
	for _, l := range col.depends.Labels {
		c := d.partitions.labels.column(l.Key, r.log)
		if c == nil {
			return nil
		}
		col.labels = append(col.labels, c)
		by = append(by, c.matters(l))
	}
	return d.partitions.byLabels(col.depends.Groups, by, r.log)
}

// version changes with the values that the column's labels have in the cluster.
func (c *column) version() (sum uint64) {
	for _, l := range c.labels {
		sum += l.version
	}
	return sum
}

// learn takes in what the answers that a policy has just given depended on. Where
// that is more than was thought, the rows have to be divided more finely.
func (d *Decider) learn(ctx context.Context, r *run, policy framework.Policy, col *column) error {
	if col.depends == nil {
		return nil
	}
	now, err := dependsOf(ctx, policy)
	if err != nil || col.depends.Covers(now) {
		return err
	}
	if col.depends = col.depends.Union(now); r.finer >= maxFiner {
		col.depends = nil
	}
	r.coarse = true
	return nil
}

// maxFiner is how often rows are divided more finely in a cycle, before a policy that
// finds ever more to depend on is taken to depend on all that it reads.
const maxFiner = 8

// divideFiner does the cycle again where it turned out that answers depended on more
// than was thought.
func (d *Decider) divideFiner(ctx context.Context, r *run, c *class) {
	for r.coarse {
		r.coarse = false
		r.finer++
		d.divide(ctx, r, c)
		d.refresh(ctx, r, c)
	}
}
