// Package storage knows the cluster's objects of storage by their names, for the
// predicates about volumes: claims, volumes, classes, CSI nodes and drivers, what
// is left of classes, and attachments.
package storage
