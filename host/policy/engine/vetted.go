package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/gob"
	"encoding/hex"
	"errors"
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

	anew bool // it is to be kept
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
	v := new(vetted)
	if err := gob.NewDecoder(bytes.NewReader(e.cache.get(vettedName(key)))).Decode(v); err == nil && v.Build == build() && v.Build != "" {
		return v, nil
	}
	v = &vetted{Build: build(), anew: build() != ""}
	var err error
	if v.Wasm, v.Report, err = vet.Rewrite(uploaded, key.limits); err != nil {
		return nil, err
	}
	if v.Report.Debug {
		if v.Lines, err = e.lines(ctx, uploaded); err != nil {
			// Without them traps still name functions. The next load tries again,
			// unless it is the debug information that is at fault.
			e.log.Warn("traps will show no source lines", "digest", "sha256:"+hex.EncodeToString(key.sum[:]), "err", err)
			v.anew = v.anew && errors.Is(err, ErrCompile)
		}
	}
	return v, nil
}

// keep keeps what was vetted anew, once the module has turned out to be loadable:
// whoever uploads what is not must not push others' code out.
func (e *Engine) keep(key loadKey, v *vetted) {
	if !v.anew {
		return
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	if err == nil {
		err = e.cache.put(vettedName(key), b.Bytes())
	}
	if err != nil {
		e.log.Warn("a vetted module is not kept", "err", err)
	}
}
