// Package store keeps the objects of a Berth host: one revision sequence for
// all kinds, compare-and-swap, durable batches, lists and watches at revisions.
package store
