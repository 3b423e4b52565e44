package record_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/record"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// recorded walks at random, decides now and then, and returns the states.
func recorded(t *testing.T, dir string, seed uint64, steps int, change func(*record.Writer)) map[uint64][]string {
	t.Helper()
	w, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(w)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	number := w.Next
	go func() { ended <- w.Run(ctx) }()
	r := rand.New(rand.NewPCG(seed, 1))
	c := snapshot.New(0)
	states := map[uint64][]string{}
	digest := &framework.Digest{Profile: "p", Policies: []framework.PolicyDigest{{Name: "a", Identity: [32]byte{1}}}}
	var traces []schedule.Trace
	w.Record(ctx, c, nil)
	for step := range steps {
		if r.IntN(6) == 0 {
			states[number] = policytest.Summary(c)
			pod := snapshot.NewPod(policytest.Pod(fmt.Sprint("d", number), "1", "1Gi", nil))
			nominated := map[int32][]*snapshot.Pod{}
			if c.Row(2) != nil {
				nominated[2] = []*snapshot.Pod{pod}
			}
			traces = append(traces, schedule.Trace{
				Number: number, Position: c.Seq(), Pod: pod, UID: pod.UID(), Name: pod.Object.Name, Digest: digest, Seed: r.Uint64(),
				Outcome: schedule.Placed, Node: "n1", Excluded: map[int32]string{3: "no volume"}, Nominated: nominated,
			})
			number++
		}
		policytest.Walk(r, c, step)
		if r.IntN(10) == 0 {
			w.Record(ctx, c, traces)
			traces = nil
			polltest.Pass(time.Millisecond) // as between the cycles of a scheduler
		}
	}
	w.Record(ctx, c, traces)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return states
}

func TestWhatIsRecordedIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	states := recorded(t, dir, 1, 300, nil)
	for number, state := range recorded(t, dir, 2, 300, nil) { // after a restart
		if states[number] != nil {
			t.Fatalf("decision %d was recorded twice", number)
		}
		states[number] = state
	}
	if len(states) < 70 {
		t.Fatalf("only %d decisions were made", len(states))
	}
	for number, want := range states {
		trace, view, err := record.Read(dir, number)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, policytest.Summary(view)); diff != "" {
			t.Fatalf("the state of decision %d (-want +got):\n%s", number, diff)
		}
		nominated := 0
		if view.Row(2) != nil {
			nominated = 1
		}
		if trace.Number != number || trace.Name != fmt.Sprint("d", number) || trace.Digest.Policies[0].Identity != [32]byte{1} ||
			trace.Excluded[3] != "no volume" || len(trace.Nominated[2]) != nominated || trace.Pod.Requests.MilliCPU != 1000 {
			t.Fatalf("decision %d is read as %+v", number, trace)
		}
	}
	if _, _, err := record.Read(dir, 1<<40); !errors.Is(err, record.ErrNone) {
		t.Errorf("a decision that never was: %v", err)
	}
}

// TestAPreemptionIsReadAgain records one with all that it reckoned with.
func TestAPreemptionIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	c := snapshot.New(0)
	c.UpsertNode(policytest.Node("a", "1", "4Gi", 9, nil))
	low, high := int32(1), int32(9)
	victim := snapshot.NewPod(policytest.Pod("low", "1", "1Gi", func(p *v1.Pod) {
		p.Spec.Priority, p.Labels = &low, map[string]string{"app": "low"}
	}))
	c.Place(victim, "a")
	pod := snapshot.NewPod(policytest.Pod("high", "1", "1Gi", func(p *v1.Pod) { p.Spec.Priority = &high }))
	guard := cycle.NewBudget(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "guard"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: victim.Object.Labels}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptedPods: map[string]metav1.Time{"other": {}}},
	})
	w.Record(ctx, c, nil)
	want := &schedule.Preemption{
		Victims: []cycle.Victim{{Pod: victim, Breaks: []string{"guard"}}}, Budgets: []*cycle.Budget{guard}, Started: schedule.Starts{2, 0, 1, 0, 7},
	}
	trace := schedule.Trace{
		Position: c.Seq(), Pod: pod, Digest: &framework.Digest{}, Outcome: schedule.Refused, Nodes: 1,
		Message: "0/1 nodes are available: 1 Insufficient cpu.", Made: "a", Preemption: want,
	}
	old := trace
	old.Number, old.Preemption = 1, nil // as versions before this one wrote it
	w.Record(ctx, c, []schedule.Trace{trace, old})
	c.Remove(victim.UID())
	w.Record(ctx, c, nil)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	got, view, err := record.Read(dir, 0)
	if err != nil || got.Preemption == nil {
		t.Fatalf("it is read as %+v, %v", got, err)
	}
	of := got.Preemption
	if len(of.Victims) != 1 || of.Victims[0].Pod.UID() != victim.UID() || of.Victims[0].Breaks[0] != "guard" || of.Budgets[0].Name != "guard" || !bytes.Equal(of.Started, want.Started) {
		t.Errorf("the preemption is read as %+v", of)
	}
	reasons := framework.NewReasons(0)
	is, err := schedule.Redo(t.Context(), policytest.Default(reasons), reasons, view, &got)
	if differs := schedule.Differences(&got, &is); err != nil || len(differs) > 0 {
		t.Errorf("made again it is %+v, %v: %q", is, err, differs)
	}
	if got, view, err = record.Read(dir, 1); err != nil || got.Made != "a" || got.Preemption != nil {
		t.Fatalf("that of a former version is read as %+v, %v", got, err)
	}
	is, err = schedule.Redo(t.Context(), policytest.Default(reasons), reasons, view, &got)
	if differs := schedule.Differences(&got, &is); err != nil || len(differs) > 0 {
		t.Errorf("that of a former version is made again as %+v, %v: %q", is, err, differs)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "decisions", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func TestFilesAreBoundedAndReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const bound = 64 << 10
	states := recorded(t, dir, 5, 900, func(w *record.Writer) { w.FileBytes = bound })
	all := files(t, dir)
	if len(all) < 3 {
		t.Fatalf("all is in %d files", len(all))
	}
	for _, file := range all {
		if info, err := os.Stat(file); err != nil || info.Size() > 4*bound {
			t.Errorf("%s is of %d bytes, %v, want about %d", filepath.Base(file), info.Size(), err, bound)
		}
	}
	for number, want := range states {
		_, view, err := record.Read(dir, number)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, policytest.Summary(view)); diff != "" {
			t.Fatalf("the state of decision %d (-want +got):\n%s", number, diff)
		}
	}
}

// TestAHostThatIsKilledLeavesWhatItWrote cuts a recording at every byte of its
// last decision, and goes on from there.
func TestAHostThatIsKilledLeavesWhatItWrote(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	states := recorded(t, dir, 7, 60, nil)
	file := files(t, dir)[0]
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin := bytes.LastIndex(data, []byte(`{"kind":"decision"`))
	end := begin + bytes.IndexByte(data[begin:], '\n') + 1
	last := uint64(len(states) - 1)
	for cut := begin; cut <= end; cut++ {
		if err := os.WriteFile(file, data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		_, view, err := record.Read(dir, last-1)
		if err != nil {
			t.Fatalf("cut at byte %d of %d: the decision before: %v", cut-begin, end-begin, err)
		}
		if diff := cmp.Diff(states[last-1], policytest.Summary(view)); diff != "" {
			t.Fatalf("cut at byte %d: the state of the decision before (-want +got):\n%s", cut-begin, diff)
		}
		_, _, err = record.Read(dir, last)
		if whole := cut == end; whole != (err == nil) || !whole && !errors.Is(err, record.ErrNone) {
			t.Fatalf("cut at byte %d of %d: the last decision: %v", cut-begin, end-begin, err)
		}
		w, err := record.Open(dir)
		if err != nil {
			t.Fatalf("cut at byte %d: open: %v", cut-begin, err)
		}
		if want := last + uint64(cut/end); w.Next != want {
			t.Fatalf("cut at byte %d of %d: goes on with %d, want %d", cut-begin, end-begin, w.Next, want)
		}
	}
}

func TestAFullDiskHoldsNothingUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := filepath.Join(dir, "decisions", fmt.Sprintf("%020d.jsonl", 0))
	var said bytes.Buffer
	var w *record.Writer
	states := recorded(t, dir, 9, 600, func(own *record.Writer) {
		// What is written to the first file finds no room.
		if err := os.Symlink("/dev/full", first); err != nil {
			t.Fatal(err)
		}
		w = own
		w.RetryAfter, w.Log = 0, slog.New(slog.NewTextHandler(&said, nil))
	})
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	read := 0
	for number, want := range states {
		_, view, err := record.Read(dir, number)
		if errors.Is(err, record.ErrNone) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		read++
		if diff := cmp.Diff(want, policytest.Summary(view)); diff != "" {
			t.Fatalf("the state of decision %d (-want +got):\n%s", number, diff)
		}
	}
	if read == 0 || w.Lost() == 0 || read+int(w.Lost()) != len(states) || w.Failing() {
		t.Errorf("%d of %d decisions can be read, %d are said to be lost, failing %v", read, len(states), w.Lost(), w.Failing())
	}
	if text := said.String(); !strings.Contains(text, "no space left on device") || !strings.Contains(text, "the recording goes on") {
		t.Errorf("the log says %s", text)
	}
}

// Where more has changed at once than the log in memory holds, decisions cannot
// be recorded: that is said, and what comes after them is recorded again.
func TestDecisionsWhoseStateIsForgottenCountAsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	w.Log = slog.New(slog.NewTextHandler(&said, nil))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	c := snapshot.New(1 << 14)
	decided := func(numbers ...uint64) {
		var traces []schedule.Trace
		for _, n := range numbers {
			pod := snapshot.NewPod(policytest.Pod(fmt.Sprint("d", n), "1", "1Gi", nil))
			traces = append(traces, schedule.Trace{Number: n, Position: c.Seq(), Pod: pod, Name: pod.Object.Name, Digest: &framework.Digest{}, Outcome: schedule.Refused})
		}
		w.Record(ctx, c, traces)
	}
	decided()
	c.UpsertNode(policytest.Node("a", "1", "4Gi", 9, nil))
	decided(0)
	for i := range 1000 {
		c.UpsertNode(policytest.Node("a", fmt.Sprint(2+i), "4Gi", 9, nil))
	}
	decided(1, 2)
	decided(3)
	decided(6) // the scheduler itself had forgotten two
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for n := range uint64(7) {
		trace, view, err := record.Read(dir, n)
		if kept := n == 0 || n == 3 || n == 6; kept != (err == nil) || !kept && !errors.Is(err, record.ErrNone) {
			t.Errorf("decision %d: %v", n, err)
		} else if kept && (trace.Name != fmt.Sprint("d", n) || view.Row(0) == nil) {
			t.Errorf("decision %d is read as %+v", n, trace)
		}
	}
	if w.Lost() != 4 || w.Failing() {
		t.Errorf("%d are said to be lost, want 4; failing %v", w.Lost(), w.Failing())
	}
	if text := said.String(); !strings.Contains(text, "decisions are not recorded") || !strings.Contains(text, "--log-memory") {
		t.Errorf("the log says %q", text)
	}
}

// A host that ends lets what it has begun to keep of the policies be kept.
func TestPoliciesAreKeptWhileTheHostEnds(t *testing.T) {
	t.Parallel()
	w, err := record.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	begun, ends := make(chan struct{}), make(chan struct{})
	var kept error
	w.Deciding = func(ctx context.Context, _ *framework.Digest) error {
		close(begun)
		<-ends
		kept = ctx.Err()
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	c := snapshot.New(0)
	w.Record(ctx, c, nil)
	pod := snapshot.NewPod(policytest.Pod("p", "1", "1Gi", nil))
	w.Record(ctx, c, []schedule.Trace{{Pod: pod, Digest: &framework.Digest{}}})
	<-begun
	cancel()
	close(ends)
	if err := <-ended; err != nil || kept != nil {
		t.Errorf("the writer ended with %v, and what keeps policies was told %v", err, kept)
	}
}

// FuzzRead reads what may have been cut or spoiled on disk, and makes of it what
// it can: the nodes and pods that a plain reading of the lines finds, and the
// same decision each time.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"kind":"node","number":0,"seq":1,"slot":1,"object":{"metadata":{"name":"a"}}}` + "\n" +
		`{"kind":"placed","number":0,"seq":2,"slot":1,"object":{"metadata":{"uid":"p"}}}` + "\n" + `{"kind":"placed","number":0,"seq":3,"slot":1,"object":{"metadata":{"uid":"q"}}}` + "\n" +
		`{"kind":"removed","number":0,"seq":4,"slot":1,"uid":"p"}` + "\n" + `{"kind":"node-gone","number":0,"seq":5,"slot":1}` + "\n" +
		`{"kind":"decision","number":0,"seq":4,"trace":{"Pod":{},"Digest":{}}}` + "\n" + `{"kind":"node-gone"`))
	f.Add([]byte(`{"kind":"node","number":0,"seq":1,"object":{}}` + "\n" + `{"kind":"decision","number":0,"seq":1,"trace":{"Pod":{},"Digest":{}}}` + "\n"))
	f.Add([]byte(`{"kind":"placed","number":0,"seq":1,"slot":-4,"object":{}}` + "\n" + `{"kind":"object","number":0,"seq":1,"version":"v1","type":"Status","object":{}}` + "\n"))
	const state = `{"kind":"node","number":0,"seq":1,"object":{"metadata":{"name":"a"},"status":{"allocatable":{"cpu":"1","pods":"9"}}}}` + "\n" +
		`{"kind":"placed","number":0,"seq":1,"object":{"metadata":{"name":"low","namespace":"x","uid":"low","labels":{"a":"b"}},"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}}` + "\n"
	const decision = `{"kind":"decision","number":0,"seq":1,"trace":{"Digest":{},"Outcome":"Refused","Pod":{"spec":{"priority":9,"containers":[{"resources":{"requests":{"cpu":"1"}}}]}},`
	for _, rest := range []string{
		`"Made":"a","Preemption":{"Victims":[{"UID":"low","Breaks":["guard"]}],"Budgets":[{"Namespace":"x","Name":"guard","Selector":{"matchLabels":{"a":"b"}},"Allowed":0,"Counted":{"low":true}}],"Started":"AgABAAE="}}}`,
		`"Made":"a","Preemption":{"Victims":[{"UID":"nobody"}]}}}`,
		`"Preemption":{"Budgets":[null],"Started":"AgABAA=="}}}`,
		`"Preemption":{"Budgets":[{"Selector":{"matchExpressions":[{"operator":"?"}]}}],"Started":"AQD/////////////AQ=="}}}`,
		`"Nominated":{"0":[null],"7":[{}],"-1":[{}]}}}`,
		`"Nominated":{"0":[{}]},"Excluded":{"0":"","-3":""},"Failures":[{"Policy":"PodFitsResources","Rows":[0,1,99,7,-1]},{"Policy":"Apart","Foreseeing":1}]}}`,
	} {
		f.Add([]byte(state + decision + rest + "\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "decisions"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "decisions", "00000000000000000000.jsonl"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		trace, view, err := record.Read(dir, 0)
		if err != nil || view.Slots() > 1000 {
			return
		}
		if trace.Number != 0 || trace.Position != view.Seq() {
			t.Errorf("decision %d at %d, of a state at %d", trace.Number, trace.Position, view.Seq())
		}
		if diff := cmp.Diff(plainly(data, trace.Position), rowsOf(view)); diff != "" {
			t.Errorf("the rows of the state (-want +got):\n%s", diff)
		}
		reasons := framework.NewReasons(0)
		var made [2]schedule.Trace
		for n := range made {
			if made[n], err = schedule.Redo(t.Context(), policytest.Default(reasons), reasons, view, &trace); err != nil {
				return
			}
			_ = schedule.Differences(&trace, &made[n])
		}
		if diff := schedule.Differences(&made[0], &made[1]); len(diff) > 0 {
			t.Errorf("made twice, the decision differs: %s", diff)
		}
	})
}

// rowsOf are a state's nodes by slot, with the pods on each.
func rowsOf(view *snapshot.View) map[int32][]string {
	rows := map[int32][]string{}
	for slot := range view.Slots() {
		if row := view.Row(slot); row != nil {
			rows[slot] = []string{row.Node.Name}
			for _, p := range row.Pods {
				rows[slot] = append(rows[slot], string(p.UID()))
			}
		}
	}
	return rows
}

// plainly reads the same out of a recording's lines.
func plainly(data []byte, position uint64) map[int32][]string {
	rows := map[int32][]string{}
	lines := bytes.Split(data, []byte("\n"))
	for _, text := range lines[:len(lines)-1] {
		var l struct {
			Kind   string
			Seq    uint64
			Slot   int32
			UID    string
			Object json.RawMessage
		}
		var object struct {
			Metadata struct{ Name, UID string }
		}
		if bytes.HasPrefix(text, []byte(`{"kind":"decision",`)) {
			continue
		}
		_ = json.Unmarshal(text, &l) // what Read has taken, but for what it does not look at
		if l.Seq > position {
			break
		}
		_ = json.Unmarshal(l.Object, &object)
		row := rows[l.Slot]
		switch {
		case l.Kind == "node" && row == nil:
			rows[l.Slot] = []string{object.Metadata.Name}
		case l.Kind == "node":
			row[0] = object.Metadata.Name
		case row == nil:
		case l.Kind == "node-gone":
			delete(rows, l.Slot)
		case l.Kind == "placed":
			rows[l.Slot] = append(row, object.Metadata.UID)
		case l.Kind == "removed" && slices.Contains(row[1:], l.UID):
			rows[l.Slot] = append(row[:1:1], slices.DeleteFunc(row[1:], func(uid string) bool { return uid == l.UID })...)
		}
	}
	return rows
}
