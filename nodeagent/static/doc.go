// Package static runs the pods whose manifests lie in a folder of the machine, with
// or without an API, and shows the API a mirror of each.
//
//	folder ─► manifest ─► pod of its own UID ─► workers ─► status
//	                             │                            │
//	                             └► mirror pod in the API ◄───┘
//
// A static pod's UID follows from what stands in its file: a file that changes is
// another pod, which starts when the one before has ended. Whoever deletes a mirror
// deletes a picture; it comes again. Such a pod refers to no other object of the API.
//
// Source: Kubernetes' static pods, its annotations kubernetes.io/config.*.
package static
