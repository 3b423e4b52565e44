// Package policies holds the built-in policies as guests: predicates,
// priorities, gates and controllers, each a package with its rule, its source
// and its tests. The mains under modules bundle them, so that a bundle is
// compiled once and opened as many sandboxes.
package policies
