// Package imagelocality is the priority ImageLocalityPriority: the more bytes
// of the pod's images the node has already, the higher.
//
// Each image of the node that the pod needs counts with its size, times the
// share of the nodes that have it, so that a lone node does not draw all pods.
// The sum is clamped to 23 MiB … 1000 MiB for each container, and stretched to
// 0…100.
//
// Source: kube-scheduler 1.36, plugin ImageLocality. Where nodes disagree on
// an image's size, the node's own counts here.
package imagelocality

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

const (
	mib       = 1 << 20
	threshold = 23 * mib
	most      = 1000 * mib // for each container
)

func init() {
	guest.Register(guest.Policy{
		Name: "ImageLocalityPriority", Kind: guest.KindPriority, Scope: guest.ScopeSet,
		Description: "The more of the pod's images the node has, by size and spread, the higher.",
		Reads:       sdk.PodImages | sdk.NodeImages,
		Open: func(s *guest.Setup) (any, error) {
			return &policy{rows: s.Rows}, s.Config.OnlyKeys()
		},
	})
}

type policy struct {
	rows  *row.Table
	nodes int
	// holders of an image, by its symbol.
	holders [][]holder
	// sums by slot for the pod of the cycle, and the slots that are not 0.
	sums    []int64
	touched []int32
	max     int64
}

type holder struct {
	slot int32
	size int64
}

// RowAdded implements guest.RowFollower.
func (p *policy) RowAdded(slot int32) {
	p.nodes++
	for _, image := range p.rows.Images[slot] {
		for int(image.Name) >= len(p.holders) {
			p.holders = append(p.holders, nil)
		}
		list := p.holders[image.Name]
		if n := len(list); n > 0 && list[n-1].slot == slot {
			continue // the node names it twice
		}
		p.holders[image.Name] = append(list, holder{slot, image.Size})
	}
}

// RowRemoved implements guest.RowFollower.
func (p *policy) RowRemoved(slot int32) {
	p.nodes--
	for _, image := range p.rows.Images[slot] {
		list := p.holders[image.Name]
		for i := range list {
			if list[i].slot == slot {
				last := len(list) - 1
				list[i] = list[last]
				p.holders[image.Name] = list[:last]
				break
			}
		}
	}
}

func (p *policy) PreScore(pod *sdk.Pod) guest.Answer {
	for _, slot := range p.touched {
		p.sums[slot] = 0
	}
	p.touched = p.touched[:0]
	if n := int(p.rows.Len()); n > len(p.sums) {
		p.sums = append(p.sums, make([]int64, n-len(p.sums))...)
	}
	for _, image := range pod.Images {
		if int(image) < len(p.holders) {
			p.add(p.holders[image])
		}
	}
	p.max = most * int64(max(pod.Containers, 1))
	if len(p.touched) == 0 {
		return guest.Skip
	}
	return guest.AskRows
}

func (p *policy) add(holders []holder) {
	spread := float64(len(holders)) / float64(p.nodes)
	for _, h := range holders {
		if p.sums[h.slot] == 0 {
			p.touched = append(p.touched, h.slot)
		}
		p.sums[h.slot] += int64(float64(h.size) * spread)
	}
}

func (p *policy) ScoreRows(slots []int32, scores []int64) {
	for i, slot := range slots {
		sum := min(max(p.sums[slot], threshold), p.max)
		scores[i] = sdk.MaxNodeScore * (sum - threshold) / (p.max - threshold)
	}
}
