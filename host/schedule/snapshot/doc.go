// Package snapshot holds the cluster as scheduling sees it: nodes in fixed
// slots, the pods that count on them, and the log of changes which policy
// instances follow.
package snapshot
