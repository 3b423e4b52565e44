package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Pulls remembers by whose credentials images came to the machine, so that who
// cannot pull an image does not get it because somebody else did. An image that
// was not pulled, but imported, is for everybody, as the kubelet has it by
// default (NeverVerifyPreloadedImages). Credentials are kept as hashes.
type Pulls struct {
	dir string

	mu sync.Mutex // over the files, too
	// under counts the pulls under way by reference.
	under map[string]int
}

// pulled is what is known of one image, by repository.
type pulled map[string]*access

// access says who may use an image of one repository.
type access struct {
	// Anyone: it was pulled without credentials.
	Anyone bool `json:"anyone,omitempty"`
	// Hashes of the credentials that pulled it.
	Hashes []string `json:"hashes,omitempty"`
}

// maxHashes bounds how many credentials are remembered for an image; the oldest
// go, and are asked for again.
const maxHashes = 100

// OpenPulls keeps its files in a folder, which it makes.
func OpenPulls(dir string) (*Pulls, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("remember pulls: %w", err)
	}
	return &Pulls{dir: dir, under: map[string]int{}}, nil
}

// Begin notes that an image is about to be pulled: if the agent ends before
// Pulled, the image is not taken for one that was imported.
func (p *Pulls) Begin(ref string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under[ref]++
	return p.write(p.intent(ref), pulled{})
}

// Failed notes that it was not pulled after all.
func (p *Pulls) Failed(ref string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end(ref)
}

// end drops the note of a pull when the last one of a reference has ended; p.mu
// is held.
func (p *Pulls) end(ref string) error {
	if p.under[ref]--; p.under[ref] > 0 {
		return nil
	}
	delete(p.under, ref)
	return p.drop(p.intent(ref))
}

// Pulled notes that an image came by a credential; nil is none. What came by one
// of the machine's own is for everybody.
func (p *Pulls) Pulled(id, ref string, by *Credential) error {
	repository, err := repositoryOf(ref)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all, _, err := p.read(p.image(id))
	if err != nil || all == nil {
		all = pulled{}
	}
	who := all[repository]
	if who == nil {
		who = &access{}
		all[repository] = who
	}
	if by == nil || by.Node {
		who.Anyone = true
	} else if hash := by.hash(); !slices.Contains(who.Hashes, hash) {
		who.Hashes = append(who.Hashes, hash)
		who.Hashes = who.Hashes[max(0, len(who.Hashes)-maxHashes):]
	}
	return errors.Join(p.write(p.image(id), all), p.end(ref))
}

// MayUse says whether a present image may be used, by that name and with those
// credentials, without asking its registry. What cannot be read allows nothing.
func (p *Pulls) MayUse(id, ref string, creds []Credential) bool {
	repository, err := repositoryOf(ref)
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all, known, err := p.read(p.image(id))
	if err != nil {
		return false
	}
	if !known {
		_, pulling, err := p.read(p.intent(ref))
		return !pulling && err == nil
	}
	who := all[repository]
	if who == nil {
		return false
	}
	return who.Anyone || slices.ContainsFunc(creds, func(c Credential) bool { return slices.Contains(who.Hashes, c.hash()) })
}

// Forget drops what is known of an image that was removed.
func (p *Pulls) Forget(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drop(p.image(id))
}

func repositoryOf(ref string) (string, error) {
	registry, repository, err := Registry(ref)
	return registry + "/" + repository, err
}

func (c Credential) hash() string {
	text, _ := json.Marshal(c) // strings only
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (p *Pulls) image(id string) string   { return p.file("image", id) }
func (p *Pulls) intent(ref string) string { return p.file("pulling", ref) }

func (p *Pulls) file(kind, name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(p.dir, kind+"-"+hex.EncodeToString(sum[:])+".json")
}

func (p *Pulls) read(name string) (all pulled, known bool, err error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, true, fmt.Errorf("%s: %w", name, err)
	}
	return all, true, nil
}

func (p *Pulls) write(name string, all pulled) error {
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return fmt.Errorf("remember pulls: %w", err)
	}
	return os.Rename(name+".new", name)
}

func (p *Pulls) drop(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remember pulls: %w", err)
	}
	return nil
}
