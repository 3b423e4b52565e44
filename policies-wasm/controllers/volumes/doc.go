// Package volumes brings PersistentVolumeClaims and PersistentVolumes together,
// and makes volumes in folders of nodes for claims of a StorageClass that asks
// for them.
//
// A claim is bound in one answer: the volume that is made or chosen names the
// claim, the claim names the volume, and its status says so, or none of it is
// stored. So nothing is ever half bound, and there is nothing to take back.
// Where a StorageClass waits for the first consumer, the scheduler chooses among
// volumes that are there, and this package makes one for the node that the
// scheduler names.
package volumes
