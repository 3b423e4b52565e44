package api_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/apitest"
	"github.com/berth-dev/berth/host/auth"
	"github.com/berth-dev/berth/host/auth/view"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

var update = flag.Bool("update", false, "write what kubectl prints into the goldens")

// findKubectl gives the path of the kubectl that the tools module pins, built if
// need be.
var findKubectl = sync.OnceValues(func() (string, error) {
	home, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	tools := filepath.Join(home, "berth", "tools")
	if dir := os.Getenv("BERTH_TOOLS"); dir != "" {
		tools = dir
	}
	path := filepath.Join(tools, "bin", "kubectl")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if out, err := exec.Command("../../.ci/tools/kubectl.sh").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kubectl: %w\n%s", err, out)
	}
	return path, nil
})

// TestKubectlPrintsWhatItPrintsForKubernetes runs the commands in each golden
// file, one after another against one server, and compares what they print.
//
//	$ kubectl get pods       a command; what follows is what it printed
//	& kubectl get pods -w    a command that goes on
//	. 2                      until it has printed so many lines
//	# …                      a comment
func TestKubectlPrintsWhatItPrintsForKubernetes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/kubectl/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			runGolden(t, file)
		})
	}
}

func runGolden(t *testing.T, file string) {
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sh := newShell(t, strings.HasSuffix(file, "access.txt"))
	var got strings.Builder
	for _, line := range strings.Split(string(want), "\n") {
		if !strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "$ ") && !strings.HasPrefix(line, "& ") && !strings.HasPrefix(line, ". ") {
			continue // what was printed the last time
		}
		if got.Len() > 0 && !strings.HasPrefix(lastLine(got.String()), "# ") {
			fmt.Fprintln(&got)
		}
		fmt.Fprintln(&got, line)
		if line[0] != '#' {
			got.WriteString(sh.do(line))
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("kubectl prints otherwise (-want +got); if that is right, run with -update:\n%s", diff)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return lines[len(lines)-1]
}

// shell runs commands as a user with a kubeconfig.
type shell struct {
	t       *testing.T
	dir     string
	env     []string
	server  string
	running *background
}

func newShell(t *testing.T, furnished bool) *shell {
	kubectl, err := findKubectl()
	if err != nil {
		t.Fatal(err)
	}
	var options []apitest.Option
	if furnished {
		options = append(options, apitest.With(furnish(t)))
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
	return &shell{t: t, dir: manifests, server: s.URL, env: []string{
		"HOME=" + home, "KUBECONFIG=" + path, "PATH=" + filepath.Dir(kubectl) + ":" + os.Getenv("PATH"),
	}}
}

// furnish gives a server accounts and roles, and pods that say a word and use
// something.
func furnish(t *testing.T) func(*apitest.Parts) {
	return func(p *apitest.Parts) {
		a, err := auth.Open(t.Context(), auth.Config{Dir: t.TempDir(), Objects: view.Of(p.Registry.Store), Server: "https://server"})
		if err != nil {
			t.Fatal(err)
		}
		p.Registry.Tokens, p.API.Reviewer, p.API.Metrics = a, a, usage{}
		p.API.Connectors = map[string]api.Connector{"pods/log": func(w http.ResponseWriter, r *http.Request, c *api.Connection) error {
			_, err := fmt.Fprintf(w, "%s says: %s\n", c.Name, r.URL.RawQuery)
			return err
		}}
	}
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

// background is a command that goes on while others run.
type background struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *background) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

func (sh *shell) start(command string) *background {
	ctx, cancel := context.WithCancel(sh.t.Context())
	b := &background{cancel: cancel, done: make(chan struct{})}
	cmd := sh.command(ctx, "exec "+command)
	cmd.Stdout, cmd.Stderr = b, b
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
func (b *background) await(t *testing.T, lines int) {
	for deadline := time.Now().Add(30 * time.Second); strings.Count(b.text(), "\n") < lines; {
		if time.Now().After(deadline) {
			t.Fatalf("%d lines are there, want %d:\n%s", strings.Count(b.text(), "\n"), lines, b.text())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (b *background) stop(t *testing.T, lines int) string {
	b.await(t, lines)
	b.cancel()
	<-b.done
	return b.text()
}

// What differs from run to run.
var (
	uid       = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	stamp     = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b`)
	fileTime  = regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}`)
	clock     = regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`)
	age       = regexp.MustCompile(`\b\d+(\.\d+)?m?s\b`)
	blanks    = regexp.MustCompile(`\n{3,}`)
	gap       = regexp.MustCompile(` {3,}`)
	version   = regexp.MustCompile(`(resourceVersion"?: )"\d+"`)
	goVersion = regexp.MustCompile(`go1\.[\d.]+`)
	token     = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)
	temporary = regexp.MustCompile(`/tmp/[\w./-]+`)
	logTime   = regexp.MustCompile(`\b([EIW])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.]+:\d+\]`)
)

func (sh *shell) tidy(out string) string {
	out = strings.ReplaceAll(out, sh.server, "https://server")
	out = strings.ReplaceAll(out, strings.TrimPrefix(sh.server, "https://"), "server")
	out = uid.ReplaceAllString(out, "UID")
	out = stamp.ReplaceAllString(out, "TIME")
	out = fileTime.ReplaceAllString(out, "TIME")
	out = clock.ReplaceAllString(out, "TIME")
	out = age.ReplaceAllString(out, "0s")
	out = version.ReplaceAllString(out, `$1"RV"`)
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
