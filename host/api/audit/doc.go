// Package audit writes who did what, one line of JSON for each answered
// request, in the fields of Kubernetes' audit events at level Metadata. Bodies
// are never written, so neither is a Secret or a token; of the query only what
// selects is kept.
//
// The file is readable by its owner alone. At its size limit it is renamed with
// the time in its name, and only the newest few are kept. A disk that is slow
// or full must not stop the API: lines wait in a bounded queue, and what does
// not fit is counted and told in the next line that does.
package audit
