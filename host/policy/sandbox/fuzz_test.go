package sandbox_test

import (
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/sandbox"
)

// FuzzObserves gives anything as a checker's own config.
func FuzzObserves(f *testing.F) {
	f.Add([]byte(`{"observe":[{"name":"up","kind":"http","port":80,"path":"/"},{"name":"in","kind":"node","condition":"Ready"}]}`))
	f.Add([]byte(`{"observe":[{"name":"up","kind":"http","port":"web","scheme":"HTTPS","path":"/a?b","httpHeaders":[{"name":"Host","value":"a"}]}]}`))
	f.Add([]byte(`{"observe":[{"name":"db","kind":"pods","selector":"app in (db"}]}`))
	f.Add([]byte(`{"observe":[{"name":"up","kind":"tcp","port":80,"prot":"TCP"}]}`))
	f.Add([]byte(`{"observe":null}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, config []byte) {
		wants, err := sandbox.Observes(nil, config)
		if err != nil {
			return
		}
		if err := abi.CheckObserves(wants); err != nil {
			t.Errorf("%q is taken, though %v", config, err)
		}
	})
}
