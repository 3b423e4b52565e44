package engine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"reflect"

	"github.com/tetratelabs/wazero"
)

// codes is what wazero's compiler asks for code and gives code to, by name.
type codes interface {
	Get([32]byte) (io.ReadCloser, bool, error)
	Add([32]byte, io.Reader) error
	Delete([32]byte) error
}

// taken has no code, and takes what the compiler makes.
type taken struct {
	name string
	code io.Writer
}

func (*taken) Get([32]byte) (io.ReadCloser, bool, error) { return nil, false, nil }

func (t *taken) Add(name [32]byte, code io.Reader) error {
	t.name = hex.EncodeToString(name[:])
	_, err := io.Copy(t.code, code)
	return err
}

func (*taken) Delete([32]byte) error { return nil }

// given has one module's code. With anything else wazero would compile here,
// in the host, in silence and without limits, so that is an error.
type given struct {
	name string
	code []byte
}

var errCompiles = errors.New("the compiled code is not this module's, or not for this host")

func (g given) Get(name [32]byte) (io.ReadCloser, bool, error) {
	if hex.EncodeToString(name[:]) != g.name {
		return nil, false, errCompiles
	}
	return io.NopCloser(bytes.NewReader(g.code)), true, nil
}

func (given) Add([32]byte, io.Reader) error { return errCompiles }

// Delete is called of code that another version of wazero made.
func (given) Delete([32]byte) error { return errCompiles }

// handOver is a cache for wazero's compiler. wazero's own makes folders and
// files, which a compile child may not: whoever may make one file may make a
// thousand. It offers no place for another, so this one is put where the own one
// would be.
func handOver(ours codes) (wazero.CompilationCache, error) {
	own := wazero.NewCompilationCache()
	place := reflect.Value{}
	if v := reflect.ValueOf(own); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		place = v.Elem().FieldByName("fileCache")
	}
	if !place.IsValid() || place.Kind() != reflect.Interface || !reflect.TypeOf(ours).Implements(place.Type()) {
		return nil, errors.New("wazero keeps compiled code in another way than this host expects")
	}
	reflect.NewAt(place.Type(), place.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(ours))
	return own, nil
}
