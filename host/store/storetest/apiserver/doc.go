// Package apiserver runs the storage suite of k8s.io/apiserver, which etcd's
// store and the watch cache pass, against Berth's store through an adapter. It
// is a module of its own, since the suite brings etcd's client and much else.
//
// Left out are the tests of what the store does not do: encryption of the bytes
// it keeps, leases with a time to live, estimates of sizes, objects without a
// name.
//
//	cd host/store/storetest/apiserver && GOFLAGS=-mod=mod go test .
package apiserver
