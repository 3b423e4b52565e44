// Package join gets a machine its certificates: it asks the host for them with
// a bootstrap token, keeps them in a folder, and asks for new ones before they
// end.
//
// The token is one text, ID.SECRET:sha256:HASH, where HASH is that of the
// cluster authority's public key: so the first connection is to the right host
// or to none. Keys are made here and never leave the machine; files are 0600 in
// a folder of 0700, and each is replaced as a whole.
package join
