package join

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// errNone: the folder holds no certificates.
var errNone = errors.New("no certificates yet")

// files are an identity on disk, all in one PEM file so that keys and
// certificates always fit.
type files struct {
	clientKey, clientCert, servingKey, servingCert, authority []byte
}

const fileName = "identity.pem"

// save writes the identity at once.
func (f files) save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	var text []byte
	for _, part := range []struct {
		name string
		pem  []byte
	}{
		{"client", f.clientKey}, {"client", f.clientCert}, {"serving", f.servingKey}, {"serving", f.servingCert}, {"authority", f.authority},
	} {
		for rest := part.pem; ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			block.Headers = map[string]string{"Berth-Use": part.name}
			text = append(text, pem.EncodeToMemory(block)...)
		}
	}
	tmp := filepath.Join(dir, fileName+".new")
	file, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, fileName))
}

// load reads an identity.
func load(dir, node string) (*held, error) {
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNone
	}
	if err != nil {
		return nil, err
	}
	var f files
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		use := block.Headers["Berth-Use"]
		block.Headers = nil
		part := pem.EncodeToMemory(block)
		switch key := block.Type == "PRIVATE KEY"; {
		case use == "client" && key:
			f.clientKey = append(f.clientKey, part...)
		case use == "client":
			f.clientCert = append(f.clientCert, part...)
		case use == "serving" && key:
			f.servingKey = append(f.servingKey, part...)
		case use == "serving":
			f.servingCert = append(f.servingCert, part...)
		case use == "authority":
			f.authority = append(f.authority, part...)
		}
	}
	return f.parse(node)
}

// parse checks that all parts fit each other and the node.
func (f files) parse(node string) (*held, error) {
	h := &held{files: f, authority: x509.NewCertPool()}
	var err error
	if h.client, err = tls.X509KeyPair(f.clientCert, f.clientKey); err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	if h.serving, err = tls.X509KeyPair(f.servingCert, f.servingKey); err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	if !h.authority.AppendCertsFromPEM(f.authority) {
		return nil, errors.New("the authority's certificate can not be read")
	}
	if want := "system:node:" + node; h.client.Leaf.Subject.CommonName != want {
		return nil, fmt.Errorf("the certificate is for %q, not for %q", h.client.Leaf.Subject.CommonName, want)
	}
	h.from, h.until = h.client.Leaf.NotBefore, h.client.Leaf.NotAfter
	if h.serving.Leaf.NotAfter.Before(h.until) {
		h.until = h.serving.Leaf.NotAfter
	}
	return h, nil
}

func hashOf(c *x509.Certificate) []byte {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return sum[:]
}
