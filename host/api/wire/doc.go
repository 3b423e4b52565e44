// Package wire turns requests' bytes into objects and objects into the bytes of
// answers: JSON, YAML and Kubernetes' protobuf, whole objects, tables and
// metadata alone. Whatever bytes come in, it gives an object or an error that
// says what is wrong with them.
package wire
