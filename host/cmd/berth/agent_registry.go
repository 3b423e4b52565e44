package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/nodeagent/image/keyring"
)

// registryFlags say how the agent reaches registries, and by what credentials.
type registryFlags struct {
	hostsDir                    string
	credentials                 string
	providerConfig, providerBin string
	stalled                     time.Duration
}

func (f *registryFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.hostsDir, "hosts-dir", "/etc/containerd/certs.d", "folder that says by HOST/hosts.toml how each registry is reached: mirrors, authorities, without TLS (containerd: config_path)")
	flags.StringVar(&f.credentials, "registry-credentials", "", "config.json, as docker login writes it, by which the images of all pods may be pulled; by default agent/config.json in the data folder, if it is there")
	flags.StringVar(&f.providerConfig, "image-credential-provider-config", "", "CredentialProviderConfig that names programs which give credentials for images (kubelet: the same)")
	flags.StringVar(&f.providerBin, "image-credential-provider-bin-dir", "", "folder of those programs (kubelet: the same)")
	flags.DurationVar(&f.stalled, "image-pull-progress-timeout", 5*time.Minute, "after how long a pull ends to which nothing comes any more (containerd: image_pull_progress_timeout)")
}

func (f *registryFlags) parse() error {
	if f.stalled < time.Second {
		return fmt.Errorf("--image-pull-progress-timeout %s: want a second at least", f.stalled)
	}
	if (f.providerConfig == "") != (f.providerBin == "") {
		return errors.New("--image-credential-provider-config and --image-credential-provider-bin-dir go together: give both")
	}
	return nil
}

// keyring opens what holds the machine's own credentials.
func (f *registryFlags) keyring(root string, log *slog.Logger) (*keyring.Keyring, error) {
	file := f.credentials
	if file == "" {
		file = filepath.Join(root, "config.json")
	}
	return keyring.Open(keyring.Config{
		File: file, Required: f.credentials != "", ProviderConfig: f.providerConfig, ProviderBin: f.providerBin, Log: log,
	})
}
