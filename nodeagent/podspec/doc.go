// Package podspec translates a pod's spec into what the runtime seam takes:
// environment, command line, limits, security context, resolv.conf and hosts
// file. It follows the kubelet's rules, takes what it refers to (ConfigMaps,
// Secrets, Services) as values or through a small interface, and touches
// nothing on the machine.
package podspec
