// Package api serves Kubernetes' REST API over HTTP: discovery, OpenAPI, the
// verbs of every kind, watches and patches. It keeps no state of its own: what
// a request does is decided by package registry, what a kind is by package
// kind.
package api
