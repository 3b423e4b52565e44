// Package volumes chooses and reserves volumes for the claims of a pod that has
// been given a node. Predicates judge whether a node will do; which volume a
// claim gets is decided here: the smallest that fits and that nobody has
// reserved. Reservations stand until the claim is seen bound or they are given
// back, so that two pods never take one volume.
package volumes
