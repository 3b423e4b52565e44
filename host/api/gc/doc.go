// Package gc removes what nothing holds any longer: objects whose owners
// are gone, dependents of owners that are deleted in the foreground, owner
// references that a deletion orphans, and the contents of namespaces that are
// being deleted. It follows Kubernetes' garbage collector and namespace
// controller.
//
//	every change ─► queue of keys ─► look at the object as it is now ─► one step
//
// It keeps no graph of its own: owners are found by name and dependents by the
// store's index of owner uids, so what it decides rests on the newest state.
package gc
