// Package oracle has tests alone: they hold nodeagent/service against
// kube-proxy's own code, its trackers of services and slices and what it makes
// of their endpoints, on services that are made up by seed.
package oracle
