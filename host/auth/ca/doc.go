// Package ca is a host's own certificate authority.
//
// It makes the authority at the first start, keeps it under DIR/pki, and signs
// with it what a cluster needs: the server's certificate (renewed before it
// expires and when the addresses change), client certificates for the
// administrator, the components and the nodes, and the kubeconfig that carries
// the administrator's. Everything on disk is 0600 in a directory of 0700 and is
// written whole or not at all.
//
// The package refuses to guess: a file that cannot be read, or that does not
// belong to the key beside it, is an error that names the file and says what to
// do. The one thing it repairs by itself is a leaf, since a leaf can always be
// signed again.
package ca
