// Package aggregate serves groups and versions of the API that others answer: a
// backend behind a Service, named by an APIService.
//
// Requests go there when the API has authenticated and authorized them, with the
// user in headers and the front proxy's certificate, as kube-aggregator sends
// them. What Berth serves itself is never given away: only groups and versions
// that it does not know are looked for here.
package aggregate
