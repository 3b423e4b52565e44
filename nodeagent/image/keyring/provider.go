package keyring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1"
	credentialprovider "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/nodeagent/image"
)

const (
	configVersion   = "kubelet.config.k8s.io/v1"
	providerVersion = "credentialprovider.kubelet.k8s.io/v1"
	// providerTimeout is how long a provider may take, as with the kubelet.
	providerTimeout = time.Minute
	// maxAnswer and maxKept bound what a provider can make the agent hold.
	maxAnswer = 1 << 20
	maxKept   = 1000
)

// provider is one program.
type provider struct {
	kubeletconfig.CredentialProvider
	program string
	log     *slog.Logger
	now     func() time.Time

	// mu is held over a call, so that a hundred pods that start together ask once.
	mu   sync.Mutex
	kept map[string]answer
}

// answer is what a provider said, and until when that holds.
type answer struct {
	auths map[string]image.Auth
	until time.Time
}

// readProviders reads the configuration of all of them.
func readProviders(cfg Config) ([]*provider, error) {
	data, err := os.ReadFile(cfg.ProviderConfig)
	if err != nil {
		return nil, fmt.Errorf("read the credential providers' configuration: %w", err)
	}
	var config kubeletconfig.CredentialProviderConfig
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.ProviderConfig, err)
	}
	if config.APIVersion != configVersion || config.Kind != "CredentialProviderConfig" {
		return nil, fmt.Errorf("%s is %s %s: want %s CredentialProviderConfig", cfg.ProviderConfig, config.APIVersion, config.Kind, configVersion)
	}
	var all []*provider
	seen := map[string]bool{}
	for _, one := range config.Providers {
		p := &provider{CredentialProvider: one, program: filepath.Join(cfg.ProviderBin, one.Name), log: cfg.Log, now: time.Now, kept: map[string]answer{}}
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("%s: provider %q: %w", cfg.ProviderConfig, one.Name, err)
		}
		if seen[one.Name] {
			return nil, fmt.Errorf("%s: provider %q is there twice", cfg.ProviderConfig, one.Name)
		}
		seen[one.Name] = true
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s names no provider", cfg.ProviderConfig)
	}
	return all, nil
}

// check finds what would make a provider fail, or do nothing.
func (p *provider) check() error {
	switch {
	case p.Name == "" || strings.ContainsAny(p.Name, `/\ `) || p.Name == "." || p.Name == "..":
		return errors.New("name: want the name of a program")
	case len(p.MatchImages) == 0:
		return errors.New("matchImages: want one at least, such as *.dkr.ecr.*.amazonaws.com")
	case p.DefaultCacheDuration == nil || p.DefaultCacheDuration.Duration < 0:
		return errors.New("defaultCacheDuration: want a duration such as 10m")
	case p.APIVersion != providerVersion:
		return fmt.Errorf("apiVersion %s: want %s", p.APIVersion, providerVersion)
	case p.TokenAttributes != nil:
		return errors.New("tokenAttributes: tokens of service accounts are not given to providers yet: leave it out")
	}
	info, err := os.Stat(p.program)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s cannot be run", p.program)
	}
	return nil
}

// credentials are those that the provider gives for an image, if it is asked
// about such images at all.
func (p *provider) credentials(ctx context.Context, ref string) ([]image.Credential, error) {
	registry, repository, err := image.Registry(ref)
	if err != nil {
		return nil, err
	}
	if !image.Matches(p.MatchImages, registry, repository) {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := registry + "/" + repository
	for _, key := range []string{name, registry, ""} {
		if a, ok := p.kept[key]; ok && p.now().Before(a.until) {
			return image.Fitting(a.auths, ref)
		}
	}
	response, err := p.run(ctx, name)
	if err != nil {
		return nil, err
	}
	auths := make(map[string]image.Auth, len(response.Auth))
	for at, a := range response.Auth {
		auths[at] = image.Auth{Username: a.Username, Password: a.Password}
	}
	if err := p.keep(response, auths, registry, name); err != nil {
		return nil, err
	}
	return image.Fitting(auths, ref)
}

// keep remembers an answer for as long as it says, for what it is about.
func (p *provider) keep(r *credentialprovider.CredentialProviderResponse, auths map[string]image.Auth, registry, name string) error {
	key := name
	switch r.CacheKeyType {
	case credentialprovider.ImagePluginCacheKeyType:
	case credentialprovider.RegistryPluginCacheKeyType:
		key = registry
	case credentialprovider.GlobalPluginCacheKeyType:
		key = ""
	default:
		return fmt.Errorf("it answered cacheKeyType %q: want Image, Registry or Global", r.CacheKeyType)
	}
	life := p.DefaultCacheDuration.Duration
	if r.CacheDuration != nil {
		life = r.CacheDuration.Duration
	}
	if life <= 0 {
		return nil
	}
	if len(p.kept) >= maxKept {
		clear(p.kept)
	}
	p.kept[key] = answer{auths, p.now().Add(life)}
	return nil
}

// run asks the program. What it writes to its standard error is for this machine's
// log alone: who creates pods sees the error.
func (p *provider) run(ctx context.Context, name string) (*credentialprovider.CredentialProviderResponse, error) {
	request, err := json.Marshal(credentialprovider.CredentialProviderRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: providerVersion, Kind: "CredentialProviderRequest"}, Image: name,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.program, p.Args...)
	cmd.Env = os.Environ()
	for _, e := range p.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	// A child of its own that keeps its output open does not hold the agent up.
	cmd.WaitDelay = time.Second
	var out, complaint limited
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &out, &complaint
	if err := cmd.Run(); err != nil {
		p.log.Warn("credential provider failed", "provider", p.Name, "image", name, "err", err, "stderr", string(complaint.data))
		if ctx.Err() != nil {
			return nil, fmt.Errorf("it took more than %s", providerTimeout)
		}
		return nil, err
	}
	var response credentialprovider.CredentialProviderResponse
	if err := json.Unmarshal(out.data, &response); err != nil {
		return nil, fmt.Errorf("its answer is no CredentialProviderResponse: %w", err)
	}
	if response.APIVersion != providerVersion || response.Kind != "CredentialProviderResponse" {
		return nil, fmt.Errorf("it answered %s %s: want %s CredentialProviderResponse", response.APIVersion, response.Kind, providerVersion)
	}
	return &response, nil
}

// limited keeps so much of what is written, and drops the rest.
type limited struct{ data []byte }

func (l *limited) Write(p []byte) (int, error) {
	l.data = append(l.data, p[:min(len(p), maxAnswer-len(l.data))]...)
	return len(p), nil
}
