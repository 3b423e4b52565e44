// Package bootstrap lets machines into the cluster and renews their certificates.
//
// # The wire
//
// A machine is given one text by its operator, made by auth.NewToken:
//
//	ID.SECRET:sha256:HASH        abcdef.0123456789abcdef:sha256:5fa1…
//
// ID.SECRET is the bearer token; HASH pins the cluster's authority: it is the
// hex SHA-256 of the subject public key info of the authority's certificate,
// which the host sends as the last certificate of each TLS handshake. The
// machine accepts the connection when one certificate of the handshake is an
// authority with that hash and the first one verifies against it.
//
//	POST /berth/v1/join
//	Authorization: Bearer ID.SECRET          to join, or
//	a client certificate system:node:NAME    to renew
//	Content-Type: application/json
//
//	{
//	  "nodeName":   "n1",
//	  "clientCSR":  "-----BEGIN CERTIFICATE REQUEST-----\n…",
//	  "servingCSR": "-----BEGIN CERTIFICATE REQUEST-----\n…"
//	}
//
// Both requests are PKCS #10 in PEM, made of two keys that never leave the
// machine (ECDSA P-256 is best; Ed25519, and RSA from 2048 bits on, will do).
// Of the first only the key counts, of the second the key and the addresses.
// The answer is 200 with
//
//	{
//	  "clientCertificate":  "-----BEGIN CERTIFICATE-----\n…",
//	  "servingCertificate": "-----BEGIN CERTIFICATE-----\n…",
//	  "caCertificate":      "-----BEGIN CERTIFICATE-----\n…"
//	}
//
// The client certificate names system:node:NAME of the group system:nodes. The
// serving certificate names NAME and the addresses, and is signed by an
// authority of its own that the host alone trusts, for the name: so no machine
// can stand in for the host or for another machine. caCertificate is what the
// machine trusts the host by, and what it verifies the host's own client
// certificate with (user berth-host, group system:masters) when the host comes
// for logs, exec, attach and port-forward.
//
// Certificates hold 90 days. A machine asks for new ones when a third of that
// is left, in the same way, with its client certificate instead of the token.
//
// # Errors
//
// Each is a Kubernetes Status in JSON: 400 for a body that cannot be read or
// a request that cannot be signed, 401 for a token that does not hold, 403 for
// a machine that asks for another's name, 409 for a name whose machine is live:
// its Lease was renewed less than 40 s ago, or another key joined under it less
// than 40 s ago. 413 is a body above 64 KiB, 405 another method.
package bootstrap
