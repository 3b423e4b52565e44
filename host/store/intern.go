package store

import (
	"hash/maphash"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fieldSets has objects share equal managedFields: replicas differ in names and
// times, and the sets of fields that their writers own are alike and large. It
// is a table of fixed size in which the newest set takes the place of another,
// so it needs no bookkeeping, and forgets.
type fieldSets [1 << 12]atomic.Pointer[metav1.FieldsV1]

// share replaces sets by equal ones that other objects hold already. The list
// itself may belong to another object, so it is copied before it is changed.
func (t *fieldSets) share(obj Object) {
	managed := obj.GetManagedFields()
	copied := false
	for i := range managed {
		own := managed[i].FieldsV1
		if own == nil {
			continue
		}
		shared := t.lookup(own)
		if shared == own {
			continue
		}
		if !copied {
			managed, copied = append([]metav1.ManagedFieldsEntry(nil), managed...), true
		}
		managed[i].FieldsV1 = shared
	}
	if copied {
		obj.SetManagedFields(managed)
	}
}

func (t *fieldSets) lookup(own *metav1.FieldsV1) *metav1.FieldsV1 {
	slot := &t[maphash.Bytes(seed, own.GetRawBytes())%uint64(len(t))]
	if there := slot.Load(); there != nil && there.Equal(*own) {
		return there
	}
	slot.Store(own)
	return own
}
