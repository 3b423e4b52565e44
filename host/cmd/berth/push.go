package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/policy/builtin"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

type pushFlags struct {
	source
	entry, config, profile, mode string
	weight                       int32
	signatures                   []string
	serviceAccount               string
	own                          v1alpha1.PolicySpec // that of the folder's policy.yaml
	joins                        bool                // the profile, since the policy is new or in none

	dryRun      bool
	force       bool
	rehearse    int
	canary      int32
	maxRefusals string
}

func newPolicyPush() *cobra.Command {
	var f pushFlags
	cmd := &cobra.Command{
		Use:   "push [NAME] [DIR|FILE.wasm]",
		Short: "Build a policy if need be, upload it and make it live",
		Long: "Builds the policy in DIR (by TinyGo if there is one, else by Go) or takes FILE.wasm as it is,\n" +
			"uploads the module and makes it live under NAME. A name that no Policy has yet becomes a new\n" +
			"Policy in the profile. If the host refuses the module, what was live stays live.\n" +
			"A folder's own policy.yaml gives name, entry, config and mode where no flag does, and the\n" +
			"failure mode and limits.\n\n" +
			"Before it goes live, the last decisions are made again with it, each by itself, and those that\n" +
			"would have ended otherwise are shown; --dry-run stops there and leaves nothing behind. It is\n" +
			"asked about 5,000 nodes, too. Where it fails, or a pod finds no node any more, it does not go\n" +
			"live without --force.\n" +
			"\nWith --canary it decides that share of the pods for now, is compared with what is live, and is\n" +
			"rolled back by itself when it traps, spends its fuel, or refuses too much.",
		Example: "  berth policy push                        # the policy of this folder\n" +
			"  berth policy push gpu-only ./examples/gpu-only\n" +
			"  berth policy push gpu-only ./examples/gpu-only --dry-run\n" +
			"  berth policy push gpu-only ./examples/gpu-only --canary 10 --max-refusals 5%",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := clientFor(cmd)
			if err != nil {
				return err
			}
			name, source, err := f.pushed(args)
			if err != nil {
				return err
			}
			return f.push(cmd, c, name, source)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.entry, "entry", "", "the policy in the module; needed only if the module holds several")
	flags.StringVar(&f.config, "config", "", "file with the policy's config, JSON or YAML")
	flags.StringVar(&f.profile, "profile", "default", "profile that a policy joins which is new, or in no profile; empty for none")
	flags.StringVar(&f.mode, "mode", "", "Enforce, Shadow or Off")
	flags.Int32Var(&f.weight, "weight", 1, "weight of a priority that joins a profile")
	flags.StringArrayVar(&f.signatures, "signature", nil, "a signature of the module as berth policy sign prints it, or @FILE with some")
	flags.StringVar(&f.serviceAccount, "service-account", "", "NAMESPACE/NAME that a controller acts as; RBAC says what it may")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would have gone elsewhere, and stop there")
	flags.BoolVar(&f.force, "force", false, "make it live even if it fails in its rehearsal, pods find no node any more, or none can be made")
	flags.IntVar(&f.rehearse, "rehearse", 200, "how many of the last decisions are made again before it goes live; 0 for none")
	flags.Int32Var(&f.canary, "canary", 0, "let it decide this share of the pods, in percent, on trial")
	flags.StringVar(&f.maxRefusals, "max-refusals", "", "percentage of the canary's pods to which it may refuse nodes that the live module admits")
	f.addFlags(cmd)
	oneOf(cmd, "mode", string(v1alpha1.Enforce), string(v1alpha1.Shadow), string(v1alpha1.Off))
	return cmd
}

// check refuses flags that do not go together.
func (f *pushFlags) check(set func(flag string) bool) error {
	switch {
	case f.canary == 0 && f.maxRefusals != "":
		return errors.New("--max-refusals is for a canary: name its share by --canary")
	case set("config") && f.config == "":
		return errors.New("--config names no file: leave it out for none")
	case f.canary < 0 || f.canary > 100:
		return errors.New("--canary is a share of 1 to 100 percent")
	case f.canary > 0 && (set("config") || set("mode")):
		return errors.New("a canary runs with the config and mode of its policy: push --config or --mode by themselves")
	case !slices.Contains([]v1alpha1.Mode{"", v1alpha1.Enforce, v1alpha1.Shadow, v1alpha1.Off}, v1alpha1.Mode(f.mode)):
		return fmt.Errorf("--mode %q: use Enforce, Shadow or Off", f.mode)
	case f.weight < 1:
		return errors.New("--weight is 1 or more")
	}
	return f.checkRehearsal()
}

func (f *pushFlags) checkRehearsal() error {
	switch {
	case f.rehearse < 0 || f.rehearse > berthapi.MaxRehearsed:
		return fmt.Errorf("--rehearse is a number of decisions, %d at most, 0 for none", berthapi.MaxRehearsed)
	case f.dryRun && f.rehearse == 0:
		return errors.New("--dry-run makes decisions again, and --rehearse 0 none: leave one of them out")
	}
	return nil
}

func (f *pushFlags) push(cmd *cobra.Command, c *client, name, source string) error {
	signatures, err := f.read(cmd.Flags().Changed)
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	was, err := f.before(cmd, c, name) // who cannot reach the host learns it before a build
	if err != nil {
		return err
	}
	wasm, err := f.module(ctx, out, source)
	if err != nil {
		return err
	}
	began := time.Now()
	module, err := f.upload(cmd, c, wasm, signatures, was)
	if err != nil {
		return err
	}
	entry, err := f.pick(module, name)
	if err != nil {
		return err
	}
	if f.canary > 0 && was != nil && same(was, module) && entryOf(was) == entry.Name {
		text := fmt.Sprintf("nothing changed: this module is what policy %s runs already, and as a canary it would differ in nothing", name)
		fmt.Fprintln(out, lookOf(out).wrapped(text))
		return nil
	}
	if err := f.fits(out, was, name, entry); err != nil {
		return err
	}
	if err := f.hasAccount(was, entry); err != nil {
		return err
	}
	if err := f.tryOut(cmd, c, name, wasm, module, entry, was); err != nil || f.dryRun {
		return err
	}
	p, err := f.store(ctx, out, c, was, name, module, entry)
	if err != nil {
		return err
	}
	return c.reportLive(cmd, p, began)
}

// before is the policy of that name as it is, nil if it is new.
func (f *pushFlags) before(cmd *cobra.Command, c *client, name string) (*v1alpha1.Policy, error) {
	was, err := c.known(cmd.Context(), name)
	if err != nil {
		return nil, err
	}
	if bad := validation.IsDNS1123Subdomain(name); was == nil && len(bad) > 0 {
		return nil, fmt.Errorf("%q cannot name a policy: use small letters, digits, '-' and '.', with a letter or digit at both ends, such as gpu-only", name)
	}
	if f.joins, err = f.toJoin(cmd.Context(), c, was); err != nil {
		return nil, err
	}
	if was != nil && !f.joins && f.profile != "" && (cmd.Flags().Changed("weight") || cmd.Flags().Changed("profile")) {
		fmt.Fprintf(cmd.ErrOrStderr(), "--profile and --weight are for a new policy, and %s is there: `kubectl edit profile` changes where it takes part\n", name)
	}
	return was, nil
}

// toJoin says whether the policy is to join the profile: it is new, or was left in
// none by a push that could not go on. A built-in one may be in none by design.
func (f *pushFlags) toJoin(ctx context.Context, c *client, was *v1alpha1.Policy) (bool, error) {
	if f.profile == "" || f.canary > 0 {
		return false, nil
	}
	if was == nil {
		return true, nil
	}
	if kind := was.Status.Kind; isBuiltin(was) || kind != "" && !inProfiles(kind) {
		return false, nil
	}
	var list v1alpha1.ProfileList
	err := c.get(ctx, policyAPI+"profiles", &list)
	if isForbidden(err) {
		return false, nil // nor may he write them
	}
	named := slices.ContainsFunc(list.Items, func(p v1alpha1.Profile) bool { return slices.Contains(p.Names(), was.Name) })
	return !named, err
}

// inProfiles says whether policies of a kind belong to profiles.
func inProfiles(kind string) bool { return kind == abi.KindPredicate || kind == abi.KindPriority }

// hasAccount refuses a controller that nobody said whom it acts as.
func (f *pushFlags) hasAccount(was *v1alpha1.Policy, entry v1alpha1.ModuleEntry) error {
	if entry.Kind != "controller" || f.own.ServiceAccount != nil || was != nil && was.Spec.ServiceAccount != nil {
		return nil
	}
	return fmt.Errorf("%s is a controller, which acts as a ServiceAccount: name one by --service-account NAMESPACE/NAME, and grant it by RBAC what %[1]s reads and writes", entry.Name)
}

// read checks the flags, and the files that they name.
func (f *pushFlags) read(set func(flag string) bool) (signatures []v1alpha1.Signature, err error) {
	if err := f.check(set); err != nil {
		return nil, err
	}
	if signatures, err = readSignatures(f.signatures); err != nil {
		return nil, err
	}
	if _, err := f.readConfig(); err != nil {
		return nil, err
	}
	return signatures, f.readServiceAccount()
}

// upload brings the module to the host, which vets and compiles it.
func (f *pushFlags) upload(cmd *cobra.Command, c *client, wasm []byte, signatures []v1alpha1.Signature, was *v1alpha1.Policy) (*v1alpha1.Module, error) {
	shown := showProgress(cmd.ErrOrStderr(), len(wasm))
	module, err := c.upload(shown.counted(cmd.Context()), wasm, signatures, f.dryRun)
	shown.stop()
	if err == nil && !f.dryRun {
		fmt.Fprintf(cmd.OutOrStdout(), "uploaded, vetted and compiled as %s%s\n", shortDigest(module.Name), beside(was, module))
	}
	return module, err
}

// store has the Policy run the module, and a new one take part in its profile.
func (f *pushFlags) store(ctx context.Context, out io.Writer, c *client, was *v1alpha1.Policy, name string, module *v1alpha1.Module, entry v1alpha1.ModuleEntry) (*v1alpha1.Policy, error) {
	writing := ctx
	if f.joins {
		writing = context.WithValue(ctx, joining{}, true)
	}
	p, err := f.apply(writing, c, was, name, module, entry)
	if err != nil {
		return nil, err
	}
	if was != nil {
		fmt.Fprintln(out, changes(&was.Spec, &p.Spec))
	}
	if f.joins {
		if err := c.join(ctx, f.profile, name, entry.Kind, f.weight); err != nil {
			return nil, fmt.Errorf("policy %s is there, but not in profile %s, and decides nothing: %w", name, f.profile, err)
		}
	}
	return p, nil
}

// beside says how a module stands to what is live under the policy's name.
func beside(was *v1alpha1.Policy, m *v1alpha1.Module) string {
	switch {
	case was == nil || was.Status.Live == "":
		return ""
	case same(was, m):
		return ", which is live already"
	}
	return ", while " + shortDigest(was.Status.Live) + " is live"
}

func same(p *v1alpha1.Policy, m *v1alpha1.Module) bool {
	return shortHex(p.Status.Live) == shortHex(m.Name)
}

// entryOf is the policy's name in its module.
func entryOf(p *v1alpha1.Policy) string { return cmp.Or(p.Spec.Entry, p.Name) }

// known is the policy of that name, nil if there is none yet.
func (c *client) known(ctx context.Context, name string) (*v1alpha1.Policy, error) {
	p := new(v1alpha1.Policy)
	err := c.get(ctx, policyAPI+"policies/"+url.PathEscape(name), p)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// fits says whether the module can take the place of what is there.
func (f *pushFlags) fits(out io.Writer, was *v1alpha1.Policy, name string, entry v1alpha1.ModuleEntry) error {
	if was == nil {
		return nil
	}
	if kind := was.Status.Kind; kind != "" && kind != entry.Kind {
		return fmt.Errorf("policy %s is a %s, and %s in this module is a %s: push it under another name, or delete that policy first", name, kind, entry.Name, entry.Kind)
	}
	if runs := entryOf(was); f.canary > 0 && runs != entry.Name {
		return fmt.Errorf("a canary runs the entry of its policy, which is %s, and this is %s: push it without --canary, or under another name", runs, entry.Name)
	}
	if was.Labels[builtin.Label] != "" && !f.dryRun {
		fmt.Fprintf(out, "policy %s is a built-in one: this takes its place, until `berth policy rollback %s`\n", name, name)
	}
	return nil
}

// pick chooses the module's entry for the policy.
func (f *pushFlags) pick(module *v1alpha1.Module, name string) (v1alpha1.ModuleEntry, error) {
	wanted := f.entry
	if wanted == "" && len(module.Status.Entries) == 1 {
		return module.Status.Entries[0], nil
	}
	if wanted == "" {
		wanted = name
	}
	var names []string
	for _, e := range module.Status.Entries {
		if e.Name == wanted {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return v1alpha1.ModuleEntry{}, fmt.Errorf("the module has no policy %q but %q: name one by --entry, or by spec.entry of its %s", wanted, names, ownFile)
}

// pointless says whether a canary has nothing to do any more once m is live.
func pointless(was *v1alpha1.Policy, m *v1alpha1.Module) bool {
	if was == nil || was.Spec.Canary == nil {
		return false
	}
	s := was.Status.Canary
	return s != nil && s.Phase == v1alpha1.PhaseRolledBack || shortHex(was.Spec.Canary.Module) == shortHex(m.Name)
}

// apply makes or changes the Policy.
func (f *pushFlags) apply(ctx context.Context, c *client, was *v1alpha1.Policy, name string, m *v1alpha1.Module, e v1alpha1.ModuleEntry) (*v1alpha1.Policy, error) {
	if f.canary > 0 {
		return f.applyCanary(ctx, c, was, name, m)
	}
	config, err := f.readConfig()
	if err != nil {
		return nil, err
	}
	spec := map[string]any{"module": m.Name, "entry": e.Name}
	if config != nil {
		spec["config"] = config
	}
	if f.mode != "" {
		spec["mode"] = f.mode
	}
	if pointless(was, m) {
		spec["canary"] = nil
	}
	if f.own.FailureMode != "" {
		spec["failureMode"] = f.own.FailureMode
	}
	if f.own.Limits != nil {
		spec["limits"] = f.own.Limits
	}
	if f.own.ServiceAccount != nil {
		spec["serviceAccount"] = f.own.ServiceAccount
	}
	p, err := c.patchPolicy(ctx, name, spec)
	if !isNotFound(err) {
		return p, err
	}
	p = &v1alpha1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Policy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.PolicySpec{
			Module: m.Name, Entry: e.Name, Config: config, Mode: v1alpha1.Mode(f.mode),
			FailureMode: f.own.FailureMode, Limits: f.own.Limits, ServiceAccount: f.own.ServiceAccount,
		},
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	made := new(v1alpha1.Policy)
	return made, c.send(ctx, "POST", policyAPI+"policies", "application/json", body, made)
}

// applyCanary puts the module on trial.
func (f *pushFlags) applyCanary(ctx context.Context, c *client, was *v1alpha1.Policy, name string, m *v1alpha1.Module) (*v1alpha1.Policy, error) {
	if others := f.others(was); len(others) > 0 {
		return nil, fmt.Errorf("a canary runs with the %s of its policy, and %s has others: push the folder without --canary, or take them out of its %s", strings.Join(others, ", "), ownFile, ownFile)
	}
	canary := v1alpha1.Canary{Module: m.Name, Share: f.canary}
	if f.maxRefusals != "" {
		most := intstr.Parse(f.maxRefusals)
		canary.MaxRefusals = &most
	}
	p, err := c.patchPolicy(ctx, name, map[string]any{"canary": canary})
	if isNotFound(err) {
		return nil, fmt.Errorf("there is no policy %s yet, which a canary could be compared with: push it without --canary", name)
	}
	return p, err
}

// others names what the folder's own policy.yaml wants otherwise than the policy has it.
func (f *pushFlags) others(was *v1alpha1.Policy) (fields []string) {
	if was == nil {
		return nil
	}
	add := func(field string, differs bool) {
		if differs {
			fields = append(fields, field)
		}
	}
	own, has := &f.own, &was.Spec
	add("config", own.Config != nil && !sameJSON(own.Config, has.Config))
	add("limits", own.Limits != nil && !equality.Semantic.DeepEqual(own.Limits, has.Limits))
	add("failureMode", own.FailureMode != "" && own.FailureMode != has.FailureMode)
	add("mode", own.Mode != "" && own.Mode != cmp.Or(has.Mode, v1alpha1.Enforce))
	add("serviceAccount", own.ServiceAccount != nil && !equality.Semantic.DeepEqual(own.ServiceAccount, has.ServiceAccount))
	return fields
}

// sameJSON compares what two configs say, however they are written.
func sameJSON(a, b *runtime.RawExtension) bool {
	if a == nil || b == nil {
		return a == b
	}
	var one, other any
	return json.Unmarshal(a.Raw, &one) == nil && json.Unmarshal(b.Raw, &other) == nil && equality.Semantic.DeepEqual(one, other)
}

// readServiceAccount has the flag go before the folder's own.
func (f *pushFlags) readServiceAccount() error {
	if f.serviceAccount == "" {
		return nil
	}
	namespace, name, ok := strings.Cut(f.serviceAccount, "/")
	if !ok || namespace == "" || name == "" {
		return fmt.Errorf("--service-account %q: want NAMESPACE/NAME", f.serviceAccount)
	}
	f.own.ServiceAccount = &v1alpha1.ServiceAccountReference{Namespace: namespace, Name: name}
	return nil
}

func (f *pushFlags) readConfig() (*runtime.RawExtension, error) {
	if f.config == "" {
		return f.own.Config, nil
	}
	data, err := os.ReadFile(f.config)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	raw, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("config %s: %s", f.config, plainly(err))
	}
	if string(raw) == "null" {
		return nil, fmt.Errorf("config %s is empty: write {} for a config that sets nothing, or leave --config out", f.config)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// join adds a new predicate or priority to a profile, and waits until that is what
// the host goes by; gates and controllers belong to none. Several pushes at once
// each get in.
func (c *client) join(ctx context.Context, profile, name, kind string, weight int32) error {
	if !inProfiles(kind) {
		return nil
	}
	for {
		p := new(v1alpha1.Profile)
		if err := c.get(ctx, policyAPI+"profiles/"+profile, p); err != nil {
			return err
		}
		if slices.Contains(p.Names(), name) {
			return nil // one of that name was deleted
		}
		if kind == abi.KindPredicate {
			p.Spec.Predicates = append(p.Spec.Predicates, v1alpha1.ProfilePredicate{Name: name})
		} else {
			p.Spec.Priorities = append(p.Spec.Priorities, v1alpha1.ProfilePriority{Name: name, Weight: weight})
		}
		p.APIVersion, p.Kind = v1alpha1.GroupVersion.String(), "Profile"
		body, err := json.Marshal(p)
		if err != nil {
			return err
		}
		err = c.send(ctx, "PUT", policyAPI+"profiles/"+profile, "application/json", body, p)
		if err == nil {
			return c.observed(ctx, p)
		}
		if !isConflict(err) {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// observed waits until the host has seen a profile as it is.
func (c *client) observed(ctx context.Context, p *v1alpha1.Profile) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for generation := p.Generation; p.Status.ObservedGeneration < generation; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the host has not looked at profile %s in a minute: is it running?", p.Name)
		case <-time.After(5 * time.Millisecond):
		}
		if err := c.get(ctx, policyAPI+"profiles/"+p.Name, p); err != nil {
			return err
		}
	}
	return nil
}
