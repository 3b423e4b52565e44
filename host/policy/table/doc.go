// Package table tests a module of any language by a table: nodes and pods as
// Kubernetes writes them, and what the policy is to say. A table is a YAML file,
// or a txtar archive of several that make up one:
//
//	policy: GPUOnly
//	nodes:
//	- metadata: {name: plain}
//	- metadata: {name: gpu, labels: {accelerator: a100}}
//	cases:
//	- name: a plain pod stays off GPU nodes
//	  want: {plain: "", gpu: node is kept for GPU pods}
//
// It is asked by the code that a host asks by, so an answer here is an answer
// there. Gates and controllers have no such tables: those are written in Go.
package table
