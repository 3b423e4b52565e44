package controller

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/host/store"
)

// numbered takes a name apart from the number at its end.
func numbered(name string) (rest string, ok bool) {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return "", false
	}
	_, err := strconv.ParseUint(name[at+1:], 10, 31)
	return name[:at], err == nil
}

// ordinalOf tells whether an object is named after one of the names, the parent
// and a number.
func ordinalOf(name, parent string, names []string) bool {
	rest, ok := numbered(name)
	if !ok {
		return false
	}
	item, ok := strings.CutSuffix(rest, "-"+parent)
	return ok && slices.Contains(names, item)
}

// namesAt are the names of the items in the list at a path of the parent.
func namesAt(parent store.Object, path string) (names []string) {
	list := at(parent, path)
	if !list.IsValid() || list.Kind() != reflect.Slice {
		return nil
	}
	for i := range list.Len() {
		if name := list.Index(i).FieldByName("Name"); name.IsValid() && name.Kind() == reflect.String {
			names = append(names, name.String())
		}
	}
	return names
}

// wakeByOrdinal wakes the parents after which the object may be named: a name of
// three parts can be read in more ways than one, since each may hold dashes.
func (d *Driver) wakeByOrdinal(w *kindWatch, o store.Object) {
	rest, ok := numbered(o.GetName())
	if !ok {
		return
	}
	for i := range len(rest) {
		if rest[i] != '-' {
			continue
		}
		parent, ok := d.Objects.Get(d.parent.key(o.GetNamespace(), rest[i+1:]))
		if ok && slices.Contains(namesAt(parent, w.kind.Path), rest[:i]) {
			d.soon(nameOf(parent))
		}
	}
}
