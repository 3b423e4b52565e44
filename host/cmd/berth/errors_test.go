package main

import (
	"cmp"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Each mistake is answered by what is wrong and what to do.
func TestErrorsTeach(t *testing.T) {
	t.Parallel()
	empty, typo, kubeconfig := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "kubeconfig")
	write(t, filepath.Join(typo, ownFile), "kind: Policy\nmetadata: {name: x}\nspec: {entri: X}\n")
	write(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\n")
	large := filepath.Join(t.TempDir(), "large.wasm")
	write(t, large, "\x00asm\x01\x00\x00\x00"+strings.Repeat("\x00", 16<<20))
	private := filepath.Join(t.TempDir(), "key.pem")
	write(t, private, "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n")
	secret, public := writeKeys(t, t.TempDir())
	small, none := filepath.Join(t.TempDir(), "small.wasm"), filepath.Join(t.TempDir(), "none.sig")
	write(t, small, "\x00asm\x01\x00\x00\x00")
	write(t, none, "")
	flagsFile := filepath.Join(t.TempDir(), "flags.yaml")
	write(t, flagsFile, "kubeconfig: "+kubeconfig+"\n")
	for _, tt := range []struct {
		name, args string
		want       []string
	}{
		{"a flag that is none", "policy new a --knid gate", []string{"unknown flag: --knid", "see `berth policy new --help`"}},
		{"too few arguments", "policy rollback", []string{"accepts 1 arg(s), received 0", "use `berth policy rollback NAME [flags]`"}},
		{"too many", "policy push a b c", []string{"use `berth policy push [NAME] [DIR|FILE.wasm] [flags]`"}},
		{"a command that is none", "policy pusch", []string{`unknown command "pusch" for "berth policy"`, "did you mean push?"}},
		{"one like no other", "policy frobnicate", []string{"see `berth policy --help`"}},
		{"a command that is none, at the root", "polcy list", []string{`unknown command "polcy" for "berth"`, "did you mean policy?"}},
		{"a file in the place of a new folder", "policy new errors_test.go", []string{"name \"errors_test.go\": want up to 63 small letters"}},
		{"a name that is too long", "policy new " + strings.Repeat("a", 64), []string{"want up to 63 small letters"}},
		{"a module to build", "policy build " + large, []string{"is a file: name the folder that holds the policy", "`berth policy inspect`"}},
		{"no file", "policy inspect /dev/zero", []string{"/dev/zero is no file"}},
		{"with and without debug information", "policy build --debug --strip " + empty, []string{"use one of them"}},
		{"a public key to sign by", "policy sign " + public + " " + large, []string{"holds a public key: modules are signed by the private one"}},
		{"no module to sign", "policy sign " + secret + " errors_test.go", []string{"errors_test.go is no WebAssembly module"}},
		{"a signature file without its mark", "policy verify " + public + " " + small + " " + none, []string{none + " is a file: write @" + none}},
		{"a file without signatures", "policy verify " + public + " " + small + " @" + none, []string{none + " holds no signature"}},
		{"a signature that is none, of which a push learns first", "policy push --kubeconfig " + kubeconfig + " --signature x x " + empty, []string{"not a signature"}},
		{"a config that is none, of which a push learns first", "policy push --kubeconfig " + kubeconfig + " --config " + empty + "/none x " + empty, []string{"none: no such file"}},
		{"a config that is empty", "policy push --kubeconfig " + kubeconfig + " --config " + none + " x " + empty, []string{"none.sig is empty: write {}"}},
		{"a config without a name", "policy push --kubeconfig " + kubeconfig + " --config= x " + empty, []string{"--config names no file"}},
		{"a config that is no YAML", "policy push --kubeconfig " + kubeconfig + " --config " + small + " x " + empty, []string{"config " + small + ": "}},
		{"a folder to push that is not there", "policy push --kubeconfig " + kubeconfig + " none/x", []string{"none/x is neither a file nor a folder"}},
		{"a weight below 1", "policy push --kubeconfig " + kubeconfig + " --weight 0 x " + empty, []string{"--weight is 1 or more"}},
		{"measures of none", "policy bench " + empty, []string{"belongs to no Go module"}},
		{"a module that is too large", "policy inspect " + large, []string{"has 16385 KB, and a host takes modules of 16384 KB at most"}},
		{"a private key in the place of a public one", "policy verify " + private + " x.wasm x", []string{"holds a private key", "openssl pkey -in KEY -pubout"}},
		{"a kind that is none", "policy new a --kind gat", []string{"want one of predicate, priority, gate, controller"}},
		{"no host", "policy list --kubeconfig " + kubeconfig, []string{"no host answers at https://127.0.0.1:1 (connection refused)", "`berth up`", "--kubeconfig"}},
		{"a folder without a policy", "policy build " + empty, []string{"belongs to no Go module: `berth policy new` makes a folder that does"}},
		{"tests of none", "policy test " + empty, []string{"`berth policy new`"}},
		{"a decision that is no number", "replay --kubeconfig " + kubeconfig + " web", []string{`"web" is no decision: it is named by its number, which ` + "`berth explain pod` shows"}},
		{"a decision at a time", "replay --kubeconfig " + kubeconfig + " 7 --at 5m", []string{"--at, --policy and --namespace are of KIND/NAME"}},
		{"a time that is none", "replay --kubeconfig " + kubeconfig + " deployment/web --at noon", []string{"--at noon: want a time such as 2026-03-01T12:00:00Z, or how long ago, such as 5m"}},
		{"a replay of no object", "replay --kubeconfig " + kubeconfig + " deployment/", []string{"want KIND/NAME, such as deployment/web"}},
		{"endpoints below none", "explain service web --limit -1 --kubeconfig " + kubeconfig, []string{"--limit -1: want a number of endpoints, 0 for all"}},
		{"a file that is not there", "policy inspect ./none.wasm", []string{"./none.wasm is neither a file nor a folder"}},
		{"a file that is no module", "policy inspect " + filepath.Join(typo, ownFile), []string{"policy.yaml is no WebAssembly module: name one (.wasm), or the folder"}},
		{"a folder in the place of a name", "policy push --kubeconfig " + kubeconfig + " " + empty, []string{"has no policy.yaml that names a policy: use `berth policy push NAME " + empty + "`"}},
		{"a push to no host, which builds nothing first", "policy push --kubeconfig " + kubeconfig + " x ../../../examples/gpu-only", []string{"no host answers at https://127.0.0.1:1"}},
		{"a typo in policy.yaml", "policy push --kubeconfig " + kubeconfig + " " + typo, []string{`policy.yaml: unknown field "entri"`}},
		{"a kubeconfig of a host", "up --kubeconfig " + kubeconfig + " --agent none", []string{"--kubeconfig names a cluster to talk to, and `berth up` talks to none by it"}},
		{"a context of a host", "host --context c", []string{"--context names a cluster"}},
		{"a kubeconfig of an agent", "agent --server https://127.0.0.1:1 --kubeconfig " + kubeconfig, []string{"`berth agent` talks to none by it"}},
		{"a kubeconfig of a restore", "restore " + small + " --data-dir " + empty + "/none --kubeconfig " + kubeconfig, []string{"`berth restore` talks to none by it"}},
		{"a kubeconfig in a file of flags", "host --config " + flagsFile, []string{"--kubeconfig names a cluster"}},
		{"nodes below none", "up --agent none --simulate -3", []string{"--simulate -3: want a number of nodes"}},
		{"an agent's flag without one", "up --agent none --node-name x", []string{"--node-name is of this machine's agent, and --agent none starts none"}},
		{"a table of a folder", "policy test --table t.yaml " + empty, []string{"--table is of a FILE.wasm"}},
		{"a table of a folder to measure", "policy bench --table t.yaml " + empty, []string{"--table is of a FILE.wasm"}},
		{"a build of a module", "policy inspect --go " + small, []string{"--go, --debug and --strip say how a folder is built, and " + small + " is a module already"}},
		{"a build of a module to test", "policy test --strip " + small, []string{"is a module already: leave them out"}},
		{"a build of a module to measure", "policy bench --debug " + small, []string{"is a module already: leave them out"}},
		{"a mode that is none", "policy push --kubeconfig " + kubeconfig + " --mode On x " + empty, []string{"use Enforce, Shadow or Off"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := berth(t, strings.Fields(tt.args)...)
			if err == nil {
				t.Fatalf("berth %s says %s", tt.args, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("berth %s: %v\nwant %q", tt.args, err, want)
				}
			}
		})
	}
}

func TestAnExpiredCertificateIsCalledSo(t *testing.T) {
	t.Parallel()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	old := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(24*3600, 0)}
	der, err := x509.CreateCertificate(nil, old, old, public, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	inPEM := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"users: [{name: u, user: {client-certificate-data: "+inPEM("CERTIFICATE", der)+", client-key-data: "+inPEM("PRIVATE KEY", secret)+"}}]\n")
	if _, err := berth(t, "policy", "list", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "has expired on 1970-01-02: take a new kubeconfig") {
		t.Errorf("list = %v", err)
	}
}

// Who is not let in learns why, and what to take instead.
func TestStrangersLearnWhy(t *testing.T) {
	t.Parallel()
	own := runHost(t)
	data, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, was, is, want string }{
		{"a token that is none", "client-(certificate|key)-data: .*", "token: abcdef.0123456789abcdef", "the certificate or token of this kubeconfig is wrong or has expired"},
		{"another authority", "certificate-authority-data: .*", "tls-server-name: localhost", "is not the one that this kubeconfig trusts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
			text := regexp.MustCompile(tt.was).ReplaceAllString(string(data), tt.is)
			write(t, kubeconfig, strings.Replace(text, tt.is+"\n    "+tt.is, tt.is, 1))
			if _, err := berth(t, "policy", "list", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("list = %v, want %q", err, tt.want)
			}
		})
	}
}

// A push that cannot go live changes nothing.
func TestAPushThatCannotGoLiveChangesNothing(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	guest := policytest.Guest{Name: "made", Version: "1", Refuse: -1, Schema: `{"type":"object","additionalProperties":false}`}
	mustBerth(t, "policy", "push", "made", handMade(t, guest), "--kubeconfig", kubeconfig)
	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, "lable: x\n")
	gate := policytest.Guest{Name: "gated", Version: "1", Kind: "gate"}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a config that its schema refuses": {[]string{handMade(t, guest), "--config", config}, "nothing has changed: policy made: module refused: the config is not what the policy's schema wants"},
		"a module of another kind":         {[]string{handMade(t, gate)}, "policy made is a predicate, and gated in this module is a gate: push it under another name"},
		"a mode that is none":              {[]string{handMade(t, gate), "--mode", "none"}, "use Enforce, Shadow or Off"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := berth(t, append([]string{"policy", "push", "made", "--kubeconfig", kubeconfig}, tt.args...)...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("push = %v, want %q", err, tt.want)
			}
		})
	}
	c, err := newClient(kubeconfig, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.policy(t.Context(), "made")
	if err != nil || p.Generation != 1 || p.Status.Phase != "Live" || p.Spec.Mode != "" && p.Spec.Mode != v1alpha1.Enforce {
		t.Errorf("the policy is %+v, %v", p, err)
	}
	if out := mustBerth(t, "policy", "push", "HostName", handMade(t, policytest.Guest{Name: "any", Version: "1", Refuse: -1}), "--kubeconfig", kubeconfig); !strings.Contains(out, "HostName is a built-in one") {
		t.Errorf("a push in the place of a built-in policy says:\n%s", out)
	}
}

// What stands between backquotes in a flag's text is shown as its type.
func TestHelpShowsWhatFlagsTake(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
			_, flag, _ := strings.Cut(line, "--")
			if takes, _, _ := strings.Cut(flag, "   "); len(strings.Fields(takes)) > 2 {
				t.Errorf("%s --help shows --%s", cmd.CommandPath(), takes)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}

// Help fits the screen, and so do the pages that cobra brings; breaking lines loses no word.
func TestHelpFitsTheScreen(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		page := fitsTheScreen(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		want := strings.Fields(cmp.Or(cmd.Long, cmd.Short) + "\n" + cmd.UsageString())
		if got := strings.Fields(page); !slices.Equal(got, want) {
			t.Errorf("%s --help has the words %q, want %q", cmd.CommandPath(), got, want)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	root := newRoot()
	root.InitDefaultHelpCmd()
	walk(root)
}

// fitsTheScreen runs a command whose lines have 80 columns at most.
func fitsTheScreen(t *testing.T, args ...string) (out string) {
	t.Helper()
	out = mustBerth(t, args...)
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("berth %q prints a line of %d columns: %s", args, n, line)
		}
	}
	return out
}

func TestACellStaysInItsRow(t *testing.T) {
	t.Parallel()
	table := &table{head: []string{"A", "B"}}
	table.add("one\ttwo\nthree", "")
	var out strings.Builder
	if err := table.write(&out); err != nil || out.String() != "A               B\none two three   <none>\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
