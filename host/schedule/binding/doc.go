// Package binding joins the scheduler to a store: it tells what is and what
// changes there, and commits what is decided: many pods at once, each together
// with its volumes.
package binding
