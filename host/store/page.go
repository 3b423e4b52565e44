package store

import "strings"

// startOf is the place where a page begins: right after the item that After
// names, or at the namespace's first. It comes from clients' tokens, so
// anything is allowed: what names no item begins where it would stand.
func startOf(namespace, after string) *entry {
	from := &entry{namespace: namespace}
	if after == "" {
		return from
	}
	ns, name, _ := strings.Cut(after, "/")
	if namespace != "" && ns < namespace {
		return from
	}
	// No name contains NUL, so nothing lies between name and name+NUL.
	return &entry{namespace: ns, name: name + "\x00"}
}
