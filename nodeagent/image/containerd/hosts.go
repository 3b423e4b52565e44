package containerd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/pelletier/go-toml/v2"
)

// registryFile is a hosts.toml: the registry itself, and hosts before it.
type registryFile struct {
	registryHost
	Server string                  `toml:"server"`
	Hosts  map[string]registryHost `toml:"host"`
}

// registryHost is how one host is reached.
type registryHost struct {
	Capabilities []string       `toml:"capabilities"`
	CA           any            `toml:"ca"`     // a file, or several
	Client       any            `toml:"client"` // a file, several, or pairs of them
	SkipVerify   *bool          `toml:"skip_verify"`
	Header       map[string]any `toml:"header"`
	OverridePath bool           `toml:"override_path"`
	DialTimeout  string         `toml:"dial_timeout"`
}

// hostDir finds a registry's folder. What the file in it says wrongly is an error
// here: containerd's reader would go on without the file, past the mirror.
func hostDir(root string) func(string) (string, error) {
	find := config.HostDirFromRoot(root)
	return func(host string) (string, error) {
		dir, err := find(host)
		if err != nil {
			return "", err
		}
		return dir, checkHosts(filepath.Join(dir, "hosts.toml"))
	}
}

func checkHosts(file string) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the folder has certificates alone, as docker's
	}
	if err != nil {
		return err
	}
	var all registryFile
	decoder := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil {
		var unknown *toml.StrictMissingError
		if errors.As(err, &unknown) {
			key := unknown.Errors[0].Key()
			return fmt.Errorf("%s: unknown field %s", file, key[len(key)-1])
		}
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := all.check(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for name, host := range all.Hosts {
		if err := host.check(); err != nil {
			return fmt.Errorf("%s: host %q: %w", file, name, err)
		}
	}
	return nil
}

func (h registryHost) check() error {
	for _, c := range h.Capabilities {
		if !slices.Contains([]string{"pull", "resolve", "push", "referrers"}, c) {
			return fmt.Errorf("capabilities: %q: want pull, resolve, push or referrers", c)
		}
	}
	for name, v := range map[string]any{"ca": h.CA, "client": h.Client} {
		switch v.(type) {
		case nil, string, []any:
		default:
			return fmt.Errorf("%s: want a file or a list of files", name)
		}
	}
	if h.DialTimeout == "" {
		return nil
	}
	if _, err := time.ParseDuration(h.DialTimeout); err != nil {
		return fmt.Errorf("dial_timeout: %w", err)
	}
	return nil
}
