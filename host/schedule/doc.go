// Package schedule decides where pods go. It knows no wasm: predicates and
// priorities are two small interfaces.
package schedule
