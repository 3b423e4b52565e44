package ca

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig writes a kubeconfig for the pair's user, with everything embedded,
// readable by its owner alone.
func (a *Authority) Kubeconfig(path, server, user string, pair Pair) error {
	const cluster = "berth"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: a.PEM()}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user, Namespace: "default"}
	config.CurrentContext = cluster
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode the kubeconfig: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return writeFile(abs, data)
}

// AdminKubeconfig keeps the administrator's certificate and writes the
// kubeconfig that uses it against the server.
func (a *Authority) AdminKubeconfig(path, server string) error {
	pair, err := a.Keep("admin", Admin)
	if err != nil {
		return err
	}
	return a.Kubeconfig(path, server, Admin.Name, pair)
}

// ParseCertificate reads the first certificate of a PEM text.
func ParseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != blockCert {
		return nil, fmt.Errorf("expected a PEM block of type %s", blockCert)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	return cert, nil
}
