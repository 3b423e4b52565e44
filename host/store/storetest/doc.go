// Package storetest holds what every store.Engine must pass (Engine), what a
// store must keep true over it (Store), and, for tests of other packages, a
// ready store in memory (Open) with a codec for Kubernetes' kinds.
package storetest
