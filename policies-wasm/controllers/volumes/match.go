package volumes

import (
	"errors"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// best is the volume that the claim gets: one that names it, else, if it may be
// chosen here, the smallest that fits.
func (c *claim) best(choose bool) (best *reconcile.Object, err error) {
	selector, err := facts.LabelSelector(c.Parent.Field("spec.selector"), c.Symbols)
	if err != nil {
		return nil, errors.New("spec.selector: " + err.Error())
	}
	selects := !c.Parent.Field("spec.selector").IsNull()
	for _, v := range c.RelatedOf("PersistentVolume") {
		if v.Deleted != 0 || !c.mayHave(v) || !c.fits(v) {
			continue
		}
		if !v.Field("spec.claimRef").IsNull() {
			return v, nil // somebody meant it for this claim
		}
		if !choose || !c.classed(v) || selects && !selector.Matches(c.Symbols, v.Labels.Pairs) {
			continue
		}
		if best == nil || size(v) < size(best) || size(v) == size(best) && v.Name < best.Name {
			best = v
		}
	}
	return best, nil
}

// mismatch says why a volume that the claim names is not what it asks for.
func (c *claim) mismatch(v *reconcile.Object) string {
	switch {
	case v.Deleted != 0:
		return `the volume is marked for deletion "` + v.Name + `"`
	case size(v) < size(&c.Parent):
		return "requested PV is too small"
	case !c.classed(v):
		return "storageClassName does not match"
	case attributesOf(v) != attributesOf(&c.Parent):
		return "volumeAttributesClassName does not match"
	case modeOf(v) != modeOf(&c.Parent):
		return "incompatible volumeMode"
	case !c.accessible(v):
		return "incompatible accessMode"
	}
	return ""
}

// fits tells whether a volume is large enough, and can be used as the claim wants.
func (c *claim) fits(v *reconcile.Object) bool {
	return size(v) >= size(&c.Parent) && modeOf(v) == modeOf(&c.Parent) && attributesOf(v) == attributesOf(&c.Parent) && c.accessible(v)
}

// classed tells whether a volume is of the claim's class.
func (c *claim) classed(v *reconcile.Object) bool {
	class, _ := classOf(v)
	return class == c.class
}

// classOf is the class that a claim or a volume names, if it names one: the annotation
// precedes the field.
func classOf(o *reconcile.Object) (class string, named bool) {
	if class, named = o.Annotations.Get(oldClass); named {
		return class, true
	}
	return o.Field("spec.storageClassName").Text()
}

// accessible tells whether a volume has all access modes that the claim wants.
func (c *claim) accessible(v *reconcile.Object) bool {
	for _, wanted := range c.Parent.Field("spec.accessModes").All {
		if !has(v.Field("spec.accessModes"), wanted) {
			return false
		}
	}
	return true
}

func has(list, wanted sdk.Config) bool {
	text, _ := wanted.Text()
	for _, item := range list.All {
		if t, _ := item.Text(); t == text {
			return true
		}
	}
	return false
}

func size(o *reconcile.Object) float64 {
	n, _ := o.Field(abi.FactStorage).Number()
	return n
}

func modeOf(o *reconcile.Object) string {
	if mode := text(o, "spec.volumeMode"); mode != "" {
		return mode
	}
	return "Filesystem"
}

// attributesOf is the class of a volume's attributes, "" of none.
func attributesOf(o *reconcile.Object) string { return text(o, "spec.volumeAttributesClassName") }
