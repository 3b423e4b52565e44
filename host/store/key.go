package store

import (
	"errors"
	"fmt"
	"strings"
)

// The engine's keys. Objects lie by resource, namespace and name; NUL, which no
// part may contain, parts them and sorts before everything else.
const (
	objectPrefix   = "o/"
	manifestPrefix = "b/m/"
	chunkPrefix    = "b/x/"
	formatKey      = "f/format"
	restoreKey     = "f/restore"
)

var errBadKey = errors.New("not a key of an object")

func (k Key) check() error {
	if k.Resource == "" || k.Name == "" {
		return fmt.Errorf("%q: %w: resource and name must be given", k, errBadKey)
	}
	if strings.ContainsRune(k.Resource, 0) || strings.ContainsRune(k.Namespace, 0) || strings.ContainsRune(k.Name, 0) {
		return fmt.Errorf("%q: %w: NUL in a name", k, errBadKey)
	}
	return nil
}

func (k Key) encode() string {
	return objectPrefix + k.Resource + "\x00" + k.Namespace + "\x00" + k.Name
}

func decodeKey(s string) (Key, error) {
	rest, ok := strings.CutPrefix(s, objectPrefix)
	if !ok {
		return Key{}, fmt.Errorf("%q: %w", s, errBadKey)
	}
	parts := strings.Split(rest, "\x00")
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("%q: %w", s, errBadKey)
	}
	k := Key{Resource: parts[0], Namespace: parts[1], Name: parts[2]}
	return k, k.check()
}
