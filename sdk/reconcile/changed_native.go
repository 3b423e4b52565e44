//go:build !wasip1

package reconcile

import "reflect"

// Changed is an object that the controller has changed since it was read, as fresh
// has read it of the same question, nil if it changed none. The next question may
// tell of it again.
func (in *Reader) Changed(fresh *Reader) *Object {
	for _, k := range [...][2][]*Object{{in.children.list, fresh.children.list}, {in.related.list, fresh.related.list}} {
		for i, o := range k[0] {
			is, was := *o, *k[1][i]
			is.round = was.round
			is.normal()
			was.normal()
			if !reflect.DeepEqual(is, was) {
				return k[1][i]
			}
		}
	}
	return nil
}

// normal has what is empty be nil, and drops what a kind does not ask for.
func (o *Object) normal() {
	if len(o.Labels.Pairs) == 0 {
		o.Labels.Pairs = nil
	}
	if len(o.Annotations.Pairs) == 0 {
		o.Annotations.Pairs = nil
	}
	if len(o.Owners) == 0 {
		o.Owners = nil
	}
	if len(o.Finalizers) == 0 {
		o.Finalizers = nil
	}
	if len(o.fields) == 0 {
		o.fields = nil
	}
	if len(o.Pod.IPs) == 0 {
		o.Pod.IPs = nil
	}
	if !o.HasPod {
		o.Pod = PodFacts{}
	}
}
