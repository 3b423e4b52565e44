// Package deptest states which room may import what, each rule with its
// reason, and fails when one is broken. It holds nothing but tests: an import
// rule stands here or nowhere. How large types and functions may become where
// they once were a knot stands here too.
package deptest
