package policytest_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/policytest"
	"github.com/berth-dev/berth/sdk/reconcile"
)

func init() {
	sdk.Controller("Restless", restless{}, reconcile.Kind{APIVersion: "v1", Kind: "ConfigMap"},
		[]reconcile.Kind{{APIVersion: "v1", Kind: "Secret"}})
}

// restless makes five children one after the other, and says that these are steps
// where its parent is named so.
type restless struct{}

func (restless) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	n := len(r.Children)
	out.Status = `{"count":` + strconv.Itoa(n) + `}`
	if n < 5 {
		out.Create = []reconcile.Creation{{Count: 1, Object: `{"apiVersion":"v1","kind":"Secret"}`}}
		out.Step = r.Parent.Name == "steps"
	}
	return out, nil
}

// A world fails the test of a controller that wants more of its own result: what
// that test prints is seen from a process of its own.
func TestAWorldTellsOfAControllerThatWantsMoreOfItsOwnResult(t *testing.T) {
	const parent = "BERTH_TEST_PARENT"
	if name := os.Getenv(parent); name != "" {
		policytest.Play(t, "Restless", "", func(w *policytest.World) {
			w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}`)
			w.WantField("ConfigMap", name, "status.count", "5")
		})
		return
	}
	t.Parallel()
	for name, want := range map[string]string{"steps": "", "one": "and of nothing but the result of that wants more"} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), parent+"="+name)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Errorf("the test of %s ends with %v: %s", name, err, out)
		}
	}
}
