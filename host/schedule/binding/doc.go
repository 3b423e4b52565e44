// Package binding joins the scheduler to a store: it tells what is and what
// changes there, and commits what is decided: many pods at once, each with its
// volumes and its event, all or none.
package binding
