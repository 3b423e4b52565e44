package ca

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// Kinds of PEM blocks.
const (
	blockCert = "CERTIFICATE"
	blockKey  = "PRIVATE KEY"
	blockCSR  = "CERTIFICATE REQUEST"
)

// secureDir makes dir, or takes from group and others what they may do there.
func secureDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory for keys: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("close the directory for keys to others: %w", err)
	}
	return nil
}

// writeFile replaces path by data as a whole, readable by its owner alone, and
// returns when it is on the disk.
func writeFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := fill(tmp, data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(dir)
}

// fill leaves the file closed. CreateTemp made it 0600 already.
func fill(f *os.File, data []byte) error {
	if _, err := f.Write(data); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

func newKeyFile(path string) (crypto.Signer, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	data, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(path, data)
}

// readKey reads a key; a file that is not there is fs.ErrNotExist.
func readKey(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, damaged(path, "it holds no PEM block")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, damaged(path, err.Error())
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, damaged(path, fmt.Sprintf("a %T cannot sign", key))
	}
	return signer, nil
}

// readCert reads the first certificate of a file and the file's bytes.
func readCert(path string) (*x509.Certificate, []byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != blockCert {
		return nil, nil, damaged(path, "it holds no PEM block of type "+blockCert)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, damaged(path, err.Error())
	}
	return cert, data, nil
}

func damaged(path, why string) error {
	return fmt.Errorf("%s is damaged (%s): restore it from a backup", path, why)
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: der})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}
