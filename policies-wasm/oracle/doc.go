// Package oracle compares the built-in policies with kube-scheduler: testdata
// holds random clusters, and for each pending pod what the plugins of
// kube-scheduler 1.36.3 said of every node. Its test asks the policies that
// stand for a plugin the same, and compares verdict codes, reasons, raw and
// normalised scores, by node.
package oracle
