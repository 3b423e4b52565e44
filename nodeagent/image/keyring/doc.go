// Package keyring has the machine's own credentials for registries, by which the
// images of every pod may be pulled: those of a config.json as docker writes it,
// and those that the kubelet's credential providers give.
//
// A provider is a program that is told an image and answers with credentials, as
// kubelet.config.k8s.io/v1 CredentialProviderConfig and
// credentialprovider.kubelet.k8s.io/v1 have it.
package keyring
