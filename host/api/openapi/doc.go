// Package openapi describes the API in OpenAPI, versions 3 and 2, from the
// table of kinds and Kubernetes' own schemas. Documents are made when they are
// asked for.
package openapi
