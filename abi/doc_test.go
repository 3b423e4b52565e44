package abi_test

import (
	"os"
	"strings"
	"testing"

	"github.com/berth-dev/berth/abi"
)

func TestTheSpecificationNamesEveryExportAndGroup(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{
		abi.Marker, abi.FuncManifest, abi.FuncInput, abi.FuncOpen, abi.FuncApply, abi.FuncPod, abi.FuncFilter,
		abi.FuncScore, abi.FuncWhatIf, abi.FuncReasons, abi.FuncExplain, abi.FuncGate, abi.FuncIdle,
		abi.FuncError, abi.FuncAt, abi.FuncReconcile, abi.ImportModule + "." + abi.ImportLog,
	}
	names = append(names, abi.GroupNames[:]...)
	names = append(names, abi.NormalizationNames[:]...)
	for _, name := range names {
		if !strings.Contains(string(text), "`"+name) {
			t.Errorf("SPEC.md does not name %s", name)
		}
	}
}
