package api_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/admission"
	"github.com/berth-dev/berth/host/api/apitest"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/serviceip"
	"github.com/berth-dev/berth/host/auth"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/logtest"
	"github.com/berth-dev/berth/host/polltest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// shell runs commands as a user with a kubeconfig.
type shell struct {
	t       *testing.T
	dir     string
	env     []string
	server  string
	running *process
	// older rewrites commands for a client that doesn't know them.
	older func(command string) string
}

func newShell(t *testing.T, kubectl string, prepared bool) *shell {
	var options []apitest.Option
	if prepared {
		options = append(options, apitest.With(prepare(t)))
	}
	s := apitest.Start(t, options...)
	home := t.TempDir()
	config := clientcmdapi.NewConfig()
	config.Clusters["berth"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: s.CA}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: "test"}
	config.Contexts["berth"] = &clientcmdapi.Context{Cluster: "berth", AuthInfo: "admin", Namespace: "default"}
	config.CurrentContext = "berth"
	path := filepath.Join(home, "config")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Abs("testdata/kubectl/manifests")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kubectl, filepath.Join(home, "kubectl")); err != nil {
		t.Fatal(err)
	}
	return &shell{t: t, dir: manifests, server: s.URL, env: []string{
		"HOME=" + home, "KUBECONFIG=" + path, "PATH=" + home + ":" + os.Getenv("PATH"),
	}}
}

// prepare gives a server accounts and roles, and pods that say a word and use
// something.
func prepare(t *testing.T) func(*apitest.Parts) {
	return func(p *apitest.Parts) {
		a, err := auth.Open(t.Context(), auth.Config{Dir: t.TempDir(), Objects: view.Of(p.Registry.Store)})
		if err != nil {
			t.Fatal(err)
		}
		p.Registry.Tokens, p.API.Reviewer, p.API.Metrics = a, a, usage{}
		chain := admission.New(admission.Config{Objects: view.Of(p.Registry.Store), Access: a.Access, Defaults: a.Defaults})
		p.Registry.Admission = registry.Admissions{chain, serviceip.New(p.Registry.Store, serviceip.Ranges{})}
		background(t, chain.Run)
		p.API.Connectors = map[string]api.Connector{"pods/log": func(w http.ResponseWriter, r *http.Request, c *api.Connection) error {
			_, err := fmt.Fprintf(w, "%s says: %s\n", c.Name, r.URL.RawQuery)
			return err
		}}
	}
}

// background runs a part of the host until the test ends.
func background(t *testing.T, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx) // it ends with ctx, or with the store
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// usage is what one node and one pod report.
type usage struct{}

func used() corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("64Mi")}
}

func (usage) NodeMetrics(context.Context) ([]metricsv1beta1.NodeMetrics, error) {
	return []metricsv1beta1.NodeMetrics{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Usage: used()}}, nil
}

func (usage) PodMetrics(context.Context, string) ([]metricsv1beta1.PodMetrics, error) {
	return []metricsv1beta1.PodMetrics{{ObjectMeta: metav1.ObjectMeta{Name: "nginx", Namespace: "default"},
		Containers: []metricsv1beta1.ContainerMetrics{{Name: "nginx", Usage: used()}}}}, nil
}

func (sh *shell) do(line string) string {
	if sh.older != nil {
		line = sh.older(line)
	}
	switch line[0] {
	case '&':
		sh.running = sh.start(line[2:])
		return ""
	case '.':
		var lines int
		if _, err := fmt.Sscan(line[2:], &lines); err != nil {
			sh.t.Fatalf("%q: %v", line, err)
		}
		return sh.tidy(sh.running.stop(sh.t, lines))
	}
	return sh.tidy(sh.run(line[2:]))
}

// run gives output and errors of a command together, and its exit code if it
// isn't 0.
func (sh *shell) run(command string) string {
	ctx, cancel := context.WithTimeout(sh.t.Context(), time.Minute)
	defer cancel()
	cmd := sh.command(ctx, command)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return string(out)
	}
	return fmt.Sprintf("%s[%v]\n", out, err)
}

func (sh *shell) command(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = sh.dir, sh.env
	return cmd
}

// process is a command that goes on while others run.
type process struct {
	cancel context.CancelFunc
	done   chan struct{}
	out    logtest.Text
}

func (sh *shell) start(command string) *process {
	ctx, cancel := context.WithCancel(sh.t.Context())
	b := &process{cancel: cancel, done: make(chan struct{})}
	cmd := sh.command(ctx, "exec "+command)
	cmd.Stdout, cmd.Stderr = &b.out, &b.out
	if err := cmd.Start(); err != nil {
		sh.t.Fatal(err)
	}
	go func() {
		defer close(b.done)
		_ = cmd.Wait() // it is ended by force
	}()
	b.await(sh.t, 1)
	return b
}

// await waits until so many lines are there.
func (b *process) await(t *testing.T, lines int) {
	if !polltest.Within(time.Minute, func() bool { return strings.Count(b.out.String(), "\n") >= lines }) {
		t.Fatalf("%d lines are there, want %d:\n%s", strings.Count(b.out.String(), "\n"), lines, b.out.String())
	}
}

func (b *process) stop(t *testing.T, lines int) string {
	b.await(t, lines)
	b.cancel()
	<-b.done
	return b.out.String()
}

// What differs from run to run.
var (
	uid       = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	stamp     = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b`)
	debugger  = regexp.MustCompile(`node-debugger-n1-\w{5}`)
	clusterIP = regexp.MustCompile(`\b10\.96\.\d+\.\d+`)
	nodePort  = regexp.MustCompile(`\b3[0-2]\d\d\d/TCP`)
	volume    = regexp.MustCompile(`kube-api-access-\w{5}`)
	color     = regexp.MustCompile("\x1b\\[[0-9;]*m")
	fileTime  = regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}`)
	clock     = regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`)
	age       = regexp.MustCompile(`\b(\d+m)?\d+(\.\d+)?m?s\b`)
	blanks    = regexp.MustCompile(`\n{3,}`)
	gap       = regexp.MustCompile(` {3,}`)
	expected  = regexp.MustCompile(`(Expected resource version to be 1, was )\d+`)
	version   = regexp.MustCompile(`(resourceVersion"?: )"\d+"`)
	goVersion = regexp.MustCompile(`go1\.[\d.]+`)
	token     = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)
	temporary = regexp.MustCompile(`/tmp/[\w./-]+`)
	logTime   = regexp.MustCompile(`\b([EIW])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.]+:\d+\]`)
)

func (sh *shell) tidy(out string) string {
	out = strings.ReplaceAll(out, sh.server, "https://server")
	out = strings.ReplaceAll(out, strings.TrimPrefix(sh.server, "https://"), "server")
	out = color.ReplaceAllString(out, "")
	out = uid.ReplaceAllString(out, "UID")
	out = debugger.ReplaceAllString(out, "node-debugger-n1-XXXXX")
	out = clusterIP.ReplaceAllString(out, "IP")
	out = nodePort.ReplaceAllString(out, "NODEPORT/TCP")
	out = volume.ReplaceAllString(out, "kube-api-access-XXXXX")
	out = stamp.ReplaceAllString(out, "TIME")
	out = fileTime.ReplaceAllString(out, "TIME")
	out = clock.ReplaceAllString(out, "TIME")
	out = age.ReplaceAllString(out, "0s")
	out = version.ReplaceAllString(out, `$1"RV"`)
	out = expected.ReplaceAllString(out, "${1}RV")
	out = goVersion.ReplaceAllString(out, "GO")
	out = token.ReplaceAllString(out, "TOKEN")
	out = temporary.ReplaceAllString(out, "TMP")
	out = logTime.ReplaceAllString(out, "$1]")
	lines := strings.Split(out, "\n")
	for i, l := range lines {
		indent := len(l) - len(strings.TrimLeft(l, " "))
		lines[i] = strings.TrimRight(l[:indent]+gap.ReplaceAllString(l[indent:], "   "), " ")
	}
	out = blanks.ReplaceAllString(strings.TrimRight(strings.Join(lines, "\n"), "\n"), "\n\n")
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	return out
}
