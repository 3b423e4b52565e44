package image

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Auth is an entry of docker's config.json.
type Auth struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// Credentials gives those of a pull secret (dockerconfigjson or dockercfg) that
// fit an image name, the longest match first. Keys may have a scheme, a port, a
// path prefix, and * for parts of the host name.
func Credentials(secret *v1.Secret, ref string) ([]Credential, error) {
	auths, err := dockerAuths(secret)
	if err != nil {
		return nil, fmt.Errorf("pull secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	found, err := Fitting(auths, ref)
	if err != nil {
		err = fmt.Errorf("pull secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return found, err
}

// Fitting gives those credentials whose keys fit an image name, the longest match
// first. Those before one that is broken are returned beside the error.
func Fitting(auths map[string]Auth, ref string) ([]Credential, error) {
	registry, repository, err := Registry(ref)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(auths))
	for k := range auths {
		if placeOf(k).fits(registry, repository) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	var out []Credential
	for _, k := range keys {
		c, err := auths[k].credential()
		if err != nil {
			return out, fmt.Errorf("%s: %w", k, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func dockerAuths(secret *v1.Secret) (map[string]Auth, error) {
	if data, ok := secret.Data[v1.DockerConfigJsonKey]; ok {
		return auths(data)
	}
	if data, ok := secret.Data[v1.DockerConfigKey]; ok {
		var auths map[string]Auth
		err := json.Unmarshal(data, &auths)
		return auths, err
	}
	return nil, fmt.Errorf("neither %s nor %s is there", v1.DockerConfigJsonKey, v1.DockerConfigKey)
}

func auths(data []byte) (map[string]Auth, error) {
	var f struct {
		Auths map[string]Auth `json:"auths"`
	}
	err := json.Unmarshal(data, &f)
	return f.Auths, err
}

// ParseConfig reads a config.json as docker writes it on a machine.
func ParseConfig(data []byte) (map[string]Auth, error) {
	var helpers struct {
		Store   string            `json:"credsStore"`
		Helpers map[string]string `json:"credHelpers"`
	}
	if err := json.Unmarshal(data, &helpers); err != nil {
		return nil, err
	}
	if helpers.Store != "" || len(helpers.Helpers) > 0 {
		return nil, errors.New("credsStore and credHelpers are docker's alone: use a credential provider")
	}
	return auths(data)
}

// Matches says whether any of the patterns fits a registry's repository. They are
// written as the keys of config.json.
func Matches(patterns []string, registry, repository string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return placeOf(p).fits(registry, repository) })
}

func (a Auth) credential() (Credential, error) {
	c := Credential{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
	if a.Auth == "" || c.Username != "" {
		return c, nil
	}
	raw, err := base64.StdEncoding.DecodeString(a.Auth)
	if err != nil {
		if raw, err = base64.RawStdEncoding.DecodeString(a.Auth); err != nil {
			return c, fmt.Errorf("auth is not base64")
		}
	}
	user, password, ok := strings.Cut(string(raw), ":")
	if !ok {
		return c, fmt.Errorf("auth is not user:password")
	}
	c.Username, c.Password = user, strings.TrimRight(password, "\x00")
	return c, nil
}

// place is what a key of a pull secret speaks of.
type place struct{ host, prefix string }

func placeOf(key string) place {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, prefix, _ := strings.Cut(strings.TrimSuffix(key, "/"), "/")
	if version, rest, _ := strings.Cut(prefix, "/"); version == "v1" || version == "v2" {
		prefix = rest
	}
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = "docker.io"
	}
	return place{host, strings.Trim(prefix, "/")}
}

// fits says whether it is a registry's repository, or one around it.
func (p place) fits(registry, repository string) bool {
	if !hostFits(p.host, registry) {
		return false
	}
	return p.prefix == "" || repository == p.prefix || strings.HasPrefix(repository, p.prefix+"/")
}

func hostFits(pattern, host string) bool {
	patternName, patternPort := splitPort(pattern)
	name, port := splitPort(host)
	if patternPort != port {
		return false
	}
	want, have := strings.Split(patternName, "."), strings.Split(name, ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func splitPort(s string) (string, string) {
	if h, p, err := net.SplitHostPort(s); err == nil {
		return h, p
	}
	return s, ""
}
