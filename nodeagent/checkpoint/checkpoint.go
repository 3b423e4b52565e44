// Package checkpoint keeps what must survive a restart of the agent: one file
// for each pod, replaced as a whole, with a version and a checksum. A file
// that is broken or from another version is set aside, never believed.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-dev/berth/nodeagent/pod"
)

const version = 1

// Dir is a folder of records.
type Dir struct{ path string }

// Open makes the folder if it is not there.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	return &Dir{path: path}, nil
}

type file struct {
	Version  int             `json:"version"`
	Checksum uint32          `json:"checksum"`
	Record   json.RawMessage `json:"record"`
}

func (d *Dir) name(uid string) (string, error) {
	if uid == "." || uid == ".." || !filepath.IsLocal(uid) || strings.ContainsAny(uid, "/\\") {
		return "", fmt.Errorf("checkpoint: %q is no pod's UID", uid)
	}
	return filepath.Join(d.path, uid+".json"), nil
}

// Save replaces a pod's record, which is a pod.Record in JSON. It is atomic against the agent's death; after a
// power failure nothing runs any more, so it need not be synced.
func (d *Dir) Save(uid string, record []byte) error {
	name, err := d.name(uid)
	if err != nil {
		return err
	}
	text, err := json.Marshal(file{Version: version, Checksum: crc32.ChecksumIEEE(record), Record: record})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return os.Rename(name+".new", name)
}

// Remove forgets a pod.
func (d *Dir) Remove(uid string) error {
	name, err := d.name(uid)
	if err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Load reads all records. Files that can not be believed are renamed to
// NAME.bad and told of in the error; the records beside them are good.
func (d *Dir) Load() ([]*pod.Record, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	var (
		out  []*pod.Record
		errs []error
	)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		name := filepath.Join(d.path, e.Name())
		data, err := os.ReadFile(name)
		if err == nil {
			var r *pod.Record
			if r, err = decode(data); err == nil && string(r.Pod.UID)+".json" != e.Name() {
				err = errors.New("it is another pod's")
			}
			if err == nil {
				out = append(out, r)
				continue
			}
		}
		errs = append(errs, fmt.Errorf("checkpoint %s set aside: %w", e.Name(), err), os.Rename(name, name+".bad"))
	}
	return out, errors.Join(errs...)
}

func decode(data []byte) (*pod.Record, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != version {
		return nil, fmt.Errorf("version %d, want %d", f.Version, version)
	}
	if sum := crc32.ChecksumIEEE(f.Record); sum != f.Checksum {
		return nil, errors.New("checksum does not match")
	}
	var r pod.Record
	if err := json.Unmarshal(f.Record, &r); err != nil {
		return nil, err
	}
	if r.Pod == nil {
		return nil, errors.New("it holds no pod")
	}
	// From now on: one that is ending keeps the rest of its grace.
	r.Update(r.Pod, time.Now())
	return &r, nil
}
