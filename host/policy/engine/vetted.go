package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/gob"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/berth-dev/berth/host/policy/engine/confine"
	"github.com/berth-dev/berth/host/policy/vet"
)

// vetted is what becomes of an upload before it is compiled. It is kept beside
// the compiled code, since vet takes as long as all the rest of a load does that
// finds its code, and source lines take a child.
type vetted struct {
	Build  string // of the binary whose vet it was: no other's is believed
	Report vet.Report
	Wasm   []byte
	Lines  []byte // a lineTable, if the module has debug information
}

// vettedPrefix begins their names in the cache.
const vettedPrefix = "vetted-"

func vettedName(key loadKey) string {
	sum := sha256.Sum256(fmt.Appendf(key.sum[:], "%+v", key.limits))
	return vettedPrefix + hex.EncodeToString(sum[:])
}

// build names this very binary, "" if it was linked without a name.
var build = sync.OnceValue(func() string {
	f, err := elf.Open(confine.ThisBinary)
	if err != nil {
		return ""
	}
	defer f.Close()
	note := f.Section(".note.go.buildid")
	if note == nil {
		return ""
	}
	id, _ := note.Data()
	return string(id)
})

// vetted vets an upload, or finds what this binary's vet made of it before.
func (e *Engine) vetted(ctx context.Context, uploaded []byte, key loadKey) (*vetted, error) {
	name := vettedName(key)
	v := new(vetted)
	if err := gob.NewDecoder(bytes.NewReader(e.cache.get(name))).Decode(v); err == nil && v.Build == build() && v.Build != "" {
		return v, nil
	}
	v = &vetted{Build: build()}
	var err error
	if v.Wasm, v.Report, err = vet.Rewrite(uploaded, key.limits); err != nil {
		return nil, err
	}
	if v.Report.Debug {
		if v.Lines, err = e.lines(ctx, uploaded); err != nil {
			// Without them traps still name functions. The next load tries again.
			e.log.Warn("traps will show no source lines", "digest", "sha256:"+hex.EncodeToString(key.sum[:]), "err", err)
			return v, nil
		}
	}
	if v.Build != "" {
		e.keep(name, v)
	}
	return v, nil
}

func (e *Engine) keep(name string, v *vetted) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	if err == nil {
		err = e.cache.put(name, b.Bytes())
	}
	if err != nil {
		e.log.Warn("a vetted module is not kept", "err", err)
	}
}
