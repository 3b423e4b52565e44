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
	sdk.Controller("Meddler", meddler{}, reconcile.Kind{APIVersion: "v1", Kind: "ConfigMap"},
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

// meddler renames its children.
type meddler struct{}

func (meddler) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	for _, o := range r.Children {
		o.Name = "mine"
	}
	return out, nil
}

// The same object is told of again: a test fails that has a controller change it.
func TestAControllerThatChangesWhatItIsToldOfFails(t *testing.T) {
	const inner = "BERTH_TEST_MEDDLER"
	if os.Getenv(inner) != "" {
		policytest.RunController(t, policytest.ControllerTable{Policy: "Meddler", Cases: []policytest.ControllerCase{{
			Name: "one child", Parent: policytest.Object{Name: "a", UID: "a"}, Children: []policytest.Object{{Kind: "Secret", Name: "b", UID: "b"}},
		}}})
		return
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inner+"=1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "the controller has changed Secret b") {
		t.Errorf("its test ends with %v: %s", err, out)
	}
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
