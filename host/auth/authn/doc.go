// Package authn tells who sent a request: the holder of a client
// certificate, a service account, a machine that joins with a bootstrap token,
// or nobody.
//
// What is kept true: a credential that is shown and does not hold ends the
// request with 401, it never falls back to being anonymous. Nobody may see
// health, readiness and version, and nothing else. Impersonation is decided
// by the authorizer, for each part of the identity that is asked for.
package authn
