// Package kind holds the one table that describes every kind of the API: its
// names and versions, how it is prepared and validated, its subresources and
// what it can be selected by. Adding a kind is adding an entry to the table of
// its group.
//
// Objects are held as their k8s.io/api types of the first version in Served.
// Preparation and validation are Kubernetes' own; they work on internal types,
// so an object is converted there and back once for each write.
package kind
