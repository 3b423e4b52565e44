// Package registry is what the API can do, without HTTP: get, list, watch,
// create, update, patch and delete for every kind of package kind. Handlers,
// controllers, the scheduler and tests call the same operations, so an object
// is defaulted, admitted and validated whoever writes it.
package registry
