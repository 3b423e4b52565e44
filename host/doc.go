// Package host puts a Berth host together: store, API, policies, scheduler,
// gates and controllers. Run is the one place where they are started, in the
// order in which they need each other, and stopped.
package host
