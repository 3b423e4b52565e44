// Package serviceip gives services their cluster addresses and node ports, as
// Kubernetes' API server does: at admission, from a range, each to one service.
package serviceip
