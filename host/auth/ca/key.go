package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"fmt"
	"io/fs"
)

// SigningKey opens the P-256 key that lies under name beside the authority, or
// makes it. What was signed with a key is lost with it, so a damaged one is an
// error and is never replaced.
func (a *Authority) SigningKey(name string) (*ecdsa.PrivateKey, error) {
	path := a.path(name + ".key")
	signer, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		signer, err = newKeyFile(path)
	}
	if err != nil {
		return nil, err
	}
	key, ok := signer.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s holds no P-256 key: put one there, or remove it to have one made (tokens signed with it are lost then)", path)
	}
	return key, nil
}
