package rollout_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Each script is the life of one Policy. What its commands are:
//
//	module NAME loads|pending|missing|needs|fails|refuses [text=WHY] [version=V] [kind=KIND]
//	policy module=NAME [config=JSON] [mode=M] [failure=M] [canary=NAME share=N [refusals=N%]] [limits=N] [account=NAME] [uid=U]
//	restart [account=unknown], as whom the current revision acted
//	pass, minute (after which comes a pass), fault REASON TEXT, quarantine TEXT, recover, memory, shown
//
// All but module make a pass; its actions come first, then how the Policy stands,
// and what of its status and Events is news.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			w := &world{modules: map[string]module{}, policy: &v1alpha1.Policy{}}
			w.policy.Name, w.policy.UID = "made", "first"
			runScript(t, file, w.run)
		})
	}
}

type module struct{ outcome, text, version, kind string }

// world is what a Loader has around it.
type world struct {
	modules       map[string]module
	policy        *v1alpha1.Policy
	state         rollout.State
	published     bool
	programs, now int64
	memory        bool
	fault         *rollout.Fault
	failure       string
	quarantined   bool
	out           strings.Builder
	status        string
}

func moduleName(short string) string {
	sum := sha256.Sum256([]byte(short))
	return "sha256-" + hex.EncodeToString(sum[:])
}

func (w *world) run(t *testing.T, command string) string {
	t.Helper()
	w.out.Reset()
	words := strings.Fields(command)
	args := map[string]string{}
	for _, word := range words[1:] {
		if k, v, ok := strings.Cut(word, "="); ok {
			args[k] = v
		}
	}
	rest := func(n int) string { return strings.Join(words[min(n, len(words)):], " ") }
	w.memory, w.fault = false, nil
	switch words[0] {
	case "module":
		w.modules[words[1]] = module{words[2], args["text"], args["version"], args["kind"]}
		return ""
	case "policy":
		w.write(args)
	case "restart":
		w.state, w.published = rollout.State{}, false
		if args["account"] == "unknown" {
			w.policy = w.policy.DeepCopy()
			w.policy.Status.Current.ServiceAccount = nil
		}
	case "fault":
		w.fault = &rollout.Fault{Reason: words[1], Message: rest(2)}
	case "quarantine":
		w.quarantined, w.failure = true, rest(1)
	case "recover":
		w.quarantined, w.failure = false, ""
	case "memory":
		w.memory = true
	case "minute":
		w.now += 60
	case "pass":
	default:
		t.Fatalf("there is no command %q", command)
	}
	w.pass()
	return w.short(w.out.String())
}

// short puts the modules' short names in place of their long ones.
func (w *world) short(text string) string {
	for name := range w.modules {
		long := moduleName(name)
		text = strings.NewReplacer(long, name, v1alpha1.ModuleName(long), name, strings.Replace(long, "-", ":", 1), name).Replace(text)
	}
	return text
}

func (w *world) write(args map[string]string) {
	p := w.policy.DeepCopy()
	p.Generation++
	for key, value := range args {
		switch key {
		case "module":
			p.Spec.Module = moduleName(value)
		case "config":
			p.Spec.Config = &runtime.RawExtension{Raw: []byte(value)}
		case "mode":
			p.Spec.Mode = v1alpha1.Mode(value)
		case "failure":
			p.Spec.FailureMode = v1alpha1.FailureMode(value)
		case "uid":
			p.UID, p.Status = types.UID(value), v1alpha1.PolicyStatus{}
		case "limits":
			p.Spec.Limits = nil
			if n, _ := strconv.ParseInt(value, 10, 64); n > 0 {
				p.Spec.Limits = &v1alpha1.PolicyLimits{MemoryBytes: n}
			}
		case "account":
			p.Spec.ServiceAccount = nil
			if value != "" {
				p.Spec.ServiceAccount = &v1alpha1.ServiceAccountReference{Namespace: "default", Name: value}
			}
		case "canary":
			p.Spec.Canary = nil
			if value != "" {
				n, _ := strconv.ParseInt(args["share"], 10, 32)
				p.Spec.Canary = &v1alpha1.Canary{Module: moduleName(value), Share: int32(n)}
				if most := args["refusals"]; most != "" {
					p.Spec.Canary.MaxRefusals = ptr.To(intstr.Parse(most))
				}
			}
		}
	}
	w.policy = p
}

// pass does what a Loader does for one Policy.
func (w *world) pass() {
	w.now++
	now := metav1.NewTime(time.Unix(w.now, 0))
	in := rollout.Input{Now: now, Policy: w.policy, Starting: !w.published, Memory: w.memory, Fault: w.fault, ModuleVersion: w.of(w.policy.Spec.Module).version}
	if c := w.policy.Spec.Canary; c != nil {
		in.CanaryVersion = w.of(c.Module).version
	}
	for first := true; first || in.Answer != nil; first = false {
		var actions []rollout.Action
		w.state, actions = rollout.Next(w.state, in)
		in.Answer = nil
		for _, a := range actions {
			if load, ok := a.(rollout.Load); ok {
				in.Answer = w.load(load)
				continue
			}
			fmt.Fprintln(&w.out, tell(a))
		}
	}
	w.published = true
	w.tellState()
	w.report(now)
}

func (w *world) of(long string) module {
	for name, m := range w.modules {
		if moduleName(name) == long {
			return m
		}
	}
	return module{outcome: "missing"}
}

func (w *world) load(a rollout.Load) *rollout.Answer {
	m := w.of(a.Module)
	answer := &rollout.Answer{Load: a}
	as := ""
	if account := a.Policy.Spec.ServiceAccount; account != nil {
		as = " as " + account.Name
	}
	fmt.Fprintf(&w.out, "load %s for %s%s: ", a.Module, a.For, as)
	kind := m.kind
	if kind == "" {
		kind = "predicate"
	}
	outcome := m.outcome
	if a.Policy.Spec.Limits != nil && a.Policy.Spec.Limits.MemoryBytes < 10 {
		outcome, m.text = "refuses", "the-limits-are-too-small"
	}
	switch {
	case outcome == "pending":
		answer.Pending = true
	case outcome == "missing":
		answer.Refusal = &rollout.Refusal{Message: "it is not there", Waits: true, ModuleVersion: m.version}
	case outcome == "needs":
		answer.Refusal = &rollout.Refusal{Message: "there is no room", Memory: 1}
	case outcome == "fails":
		answer.Refusal = &rollout.Refusal{Message: "the disk is full", Passes: true}
	case outcome == "refuses":
		answer.Refusal = &rollout.Refusal{Message: m.text}
	case a.Kind != "" && a.Kind != kind:
		answer.Refusal = &rollout.Refusal{Message: "it is a " + kind + ", not a " + a.Kind}
	default:
		w.programs++
		answer.Program = rollout.Program{ID: w.programs, Key: rollout.Key(a.Policy, a.Module), Kind: kind, Revision: rollout.Revision(a.Policy, a.Module)}
	}
	switch {
	case answer.Pending:
		fmt.Fprintln(&w.out, "not done")
	case answer.Refusal != nil:
		fmt.Fprintln(&w.out, answer.Refusal.Message)
	default:
		fmt.Fprintln(&w.out, "done")
	}
	return answer
}

func program(p rollout.Program) string {
	if p.Revision.Config == nil {
		return p.Revision.Module
	}
	return p.Revision.Module + string(p.Revision.Config.Raw)
}

func tell(a rollout.Action) string {
	switch a := a.(type) {
	case rollout.Use:
		return "use " + program(a.Program)
	case rollout.Retire:
		return "retire " + program(a.Program)
	case rollout.StartCanary:
		return fmt.Sprintf("start canary %s, its counts go on: %t", program(a.Program), a.Resume)
	case rollout.EndCanary:
		return fmt.Sprintf("end canary, promoted: %t", a.Promoted)
	case rollout.CountAnew:
		return "count anew"
	case rollout.ForgetTrial:
		return "forget the trial"
	case rollout.ResumeShadow:
		return "the shadow counts on"
	case rollout.Publish:
		return "publish"
	case rollout.Warn:
		return "warn: " + strings.Join(strings.Fields(a.Text+": "+a.Module+" "+a.Reason+" "+a.Message), " ")
	}
	return fmt.Sprintf("%T", a)
}

func (w *world) tellState() {
	m, c := &w.state.Main, &w.state.Canary
	text := "is " + phase(m.Phase, m.Before)
	if !m.Live.None() {
		text += ", " + program(m.Live) + " decides"
	}
	if c.Phase != "" {
		text += "; canary " + phase(c.Phase, c.Before)
	}
	for i, p := range w.state.Previous {
		text += []string{"; warm ", ", "}[min(i, 1)] + program(p)
	}
	fmt.Fprintln(&w.out, text)
}

func phase(p, before rollout.Phase) string {
	if before != "" {
		return string(p) + " beside " + string(before)
	}
	return string(p)
}

// report writes the status, if that is news, and tells of it.
func (w *world) report(now metav1.Time) {
	if w.state.Policy == nil || w.state.Canary.Phase == rollout.Loading {
		return
	}
	before := w.policy.Status
	after := rollout.Status(&w.state, &before, &rollout.Facts{Now: now, Set: 1, Quarantined: w.quarantined, Failure: w.failure})
	same := w.state.Policy == w.policy
	w.policy = w.policy.DeepCopy()
	w.policy.Status = after
	if same { // the state is of what the store holds
		w.state.Policy = w.policy
	}
	if text := statusOf(&after); text != w.status {
		w.status = text
		fmt.Fprint(&w.out, text)
	}
	for _, e := range rollout.Events(&before, &after) {
		fmt.Fprintf(&w.out, "event %s %s: %s\n", e.Type, e.Reason, e.Message)
	}
}

func statusOf(s *v1alpha1.PolicyStatus) string {
	text := strings.TrimSpace(fmt.Sprint("status ", s.Phase, " ", s.Live, " ", s.Message)) + "\n"
	if s.Current != nil {
		text += "current " + revision(s.Current) + "\n"
	}
	for i := range s.History {
		text += "history " + revision(&s.History[i]) + "\n"
	}
	if c := s.Canary; c != nil {
		text += strings.TrimSpace(fmt.Sprint("canary ", c.Phase, " ", c.Module, " ", c.Reason, " ", c.Message)) + "\n"
	}
	return text
}

func revision(r *v1alpha1.PolicyRevision) string {
	text := r.Module
	if r.Config != nil {
		text += string(r.Config.Raw)
	}
	if r.ServiceAccount != nil {
		text += " as " + r.ServiceAccount.Name
	}
	return strings.TrimSpace(fmt.Sprint(text, " ", r.Reason, " ", r.Left, " ", r.Message))
}
