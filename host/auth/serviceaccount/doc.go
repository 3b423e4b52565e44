// Package serviceaccount makes and checks the tokens of service accounts.
//
// A token is a JWT of Kubernetes' form, signed with ES256 by one key under
// DIR/pki. It says which account it is for, for which audiences, until when,
// and which pod, Secret or node it is bound to. What is kept true: a token ends
// with its time, with its account, and with the object that it is bound to,
// each checked at each use; only the signature's check is remembered. No other
// algorithm is accepted, whatever a token's header says.
//
// A token of the other kind lies in a Secret of type
// kubernetes.io/service-account-token. It has no end of its own: it holds while
// that Secret holds this very token and its account is there.
//
// The package also gives each namespace its account "default" and the
// ConfigMap with the cluster's certificate.
package serviceaccount
