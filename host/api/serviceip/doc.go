// Package serviceip gives services their cluster addresses and node ports, as
// Kubernetes' API server does: at admission, each to one service.
//
// Addresses lie in ranges: those of the configuration, and of ServiceCIDR
// objects. Who has one is told by an IPAddress object, which is stored and
// changed in the transaction that stores the service: two services can no more
// have one address than two objects one name.
package serviceip
