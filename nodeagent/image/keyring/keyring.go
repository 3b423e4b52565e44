package keyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/berth-dev/berth/nodeagent/image"
)

// Config says where the credentials are.
type Config struct {
	// File is a config.json as docker writes it, read at each use. Required says
	// that it must be there; otherwise its absence means no credentials.
	File     string
	Required bool
	// ProviderConfig is a CredentialProviderConfig, ProviderBin the folder of the
	// programs that it names; both or none.
	ProviderConfig, ProviderBin string
	Log                         *slog.Logger
}

// Keyring is an image.Keyring.
type Keyring struct {
	cfg       Config
	providers []*provider
}

// Open reads the configuration. What would fail at the first pull fails here.
func Open(cfg Config) (*Keyring, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	k := &Keyring{cfg: cfg}
	if _, err := k.file(); err != nil {
		return nil, err
	}
	if (cfg.ProviderConfig == "") != (cfg.ProviderBin == "") {
		return nil, errors.New("credential providers need both a configuration and the folder of their programs")
	}
	if cfg.ProviderConfig == "" {
		return k, nil
	}
	var err error
	k.providers, err = readProviders(cfg)
	return k, err
}

// Credentials implements image.Keyring. Those that could be had are returned
// beside the error about the others.
func (k *Keyring) Credentials(ctx context.Context, ref string) ([]image.Credential, error) {
	var errs []error
	auths, err := k.file()
	errs = append(errs, err)
	all, err := image.Fitting(auths, ref)
	if err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", k.cfg.File, err))
	}
	for _, p := range k.providers {
		found, err := p.credentials(ctx, ref)
		if err != nil {
			errs = append(errs, fmt.Errorf("credential provider %s: %w", p.Name, err))
		}
		all = append(all, found...)
	}
	for i := range all {
		all[i].Node = true
	}
	return all, errors.Join(errs...)
}

func (k *Keyring) file() (map[string]image.Auth, error) {
	if k.cfg.File == "" {
		return nil, nil
	}
	data, err := os.ReadFile(k.cfg.File)
	if errors.Is(err, fs.ErrNotExist) && !k.cfg.Required {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the registries' credentials: %w", err)
	}
	auths, err := image.ParseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.cfg.File, err)
	}
	return auths, nil
}
