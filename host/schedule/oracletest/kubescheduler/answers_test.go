package kubescheduler_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/berth-dev/berth/host/schedule/oracletest"
	"github.com/berth-dev/berth/host/schedule/oracletest/invent"
	"github.com/berth-dev/berth/host/schedule/oracletest/kubescheduler"
)

var update = flag.Bool("update", false, "write the answers anew that the main module's tests compare with")

// answersFile is read by the test of policies-wasm/oracle.
const answersFile = "../../../../policies-wasm/oracle/testdata/invented.answers.b64"

// TestAnswersAreThoseOfKubeScheduler sees to it that what CI compares with is
// what kube-scheduler says.
func TestAnswersAreThoseOfKubeScheduler(t *testing.T) {
	var cases []*oracletest.Case
	for seed := range uint64(invent.Kept) {
		c := invent.Case(seed)
		var err error
		if c.Answers, err = kubescheduler.Answer(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	got, err := invent.Pack(cases)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(answersFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(answersFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the answers that are kept are others: run the test with -update")
	}
}
