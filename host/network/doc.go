// Package network keeps what a cluster's network has of itself: the Services
// default/kubernetes, with the addresses at which pods reach the API, and
// kube-system/kube-dns; the class of Ingresses that node agents answer for, and in
// the status of these where they do; the ServiceCIDR of the configuration; and an
// IPAddress for each address that a Service has.
//
// Addresses are given by host/api/serviceip; what it took for a Service that has
// gone since, or has given it up, comes back here.
package network
