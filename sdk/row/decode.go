package row

import (
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/facts"
)

// rowDecoder keeps the readers of a row's groups.
type rowDecoder struct {
	facts.Decoder
	syms       *facts.Symbols
	kv         fb.KV
	cond       fb.Condition
	image      fb.Image
	amounts    fb.Amounts
	usage      fb.Usage
	capacity   fb.Capacity
	labels     fb.Labels
	taints     fb.Taints
	conds      fb.Conditions
	rowPorts   fb.Ports
	rowVolumes fb.Volumes
	rowImages  fb.Images
}

func newRowDecoder(syms *facts.Symbols) *rowDecoder {
	return &rowDecoder{Decoder: *facts.NewDecoder(syms), syms: syms}
}

// pairs reads labels or annotations.
func (d *rowDecoder) pairs(dst []facts.Pair, l *fb.Labels) []facts.Pair {
	for i, n := 0, l.ItemsLength(); i < n; i++ {
		l.Items(&d.kv, i)
		dst = append(dst, facts.Pair{Key: d.syms.InternBytes(d.kv.Key()), Value: d.syms.InternBytes(d.kv.Value())})
	}
	return dst
}

// conditions reads d.conds.
func (d *rowDecoder) conditions(dst []facts.Condition) []facts.Condition {
	c := &d.cond
	for i, n := 0, d.conds.ItemsLength(); i < n; i++ {
		d.conds.Items(c, i)
		dst = append(dst, facts.Condition{Type: d.syms.InternBytes(c.Type()), Status: facts.ConditionStatus(c.Status()), Since: c.Since()})
	}
	return dst
}

// images reads d.rowImages.
func (d *rowDecoder) images(dst []facts.Image) []facts.Image {
	im := &d.image
	for i, n := 0, d.rowImages.ItemsLength(); i < n; i++ {
		d.rowImages.Items(im, i)
		dst = append(dst, facts.Image{Name: d.syms.InternBytes(im.Name()), Size: im.Size()})
	}
	return dst
}
