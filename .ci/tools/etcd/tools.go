//go:build tools

package main

// etcd itself is built from this module too (see etcd.sh).
import _ "go.etcd.io/etcd/server/v3/etcdmain"
