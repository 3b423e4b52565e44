// Package apitest runs the API in a test: a store in memory, the registry and
// the handler over TLS and HTTP/2, without authentication.
package apitest
