// Package auth puts together who you are and what you may do: the certificate
// authority, the kinds of credentials, the authorizer, service accounts, the
// joining of machines, and the reviews by which clients ask about all of it.
//
//	request ─► Who ─► identity: certificate, service account, bootstrap token
//	                  impersonation, decided by access
//	        ─► May ─► access: system:masters, node rules, RBAC
//
// The packages below decide from values and stored objects; this one opens
// them in the right order and runs their upkeep.
package auth
