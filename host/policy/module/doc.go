// Package module holds WebAssembly modules by content: it takes uploads in, says
// whose word lets one run, makes one ready, and collects what nobody uses.
//
//	Receive (memory by user) ─► Examine (signed, vetted, compiled) ─► Keep (bytes) ─► Module object
//	                                        │                                             │
//	                                        ▼                                             ▼
//	                               Ready: the next swap              Collect: unused for an hour
//
// What it keeps true: what runs is signed by a trusted key, wherever keys are
// trusted, whenever it was uploaded; a Module object has its bytes; what is being
// uploaded is not collected; uploads hold a bounded part of memory and store.
//
// What it refuses to do: open a module, or know what a policy is made of beside it.
package module
