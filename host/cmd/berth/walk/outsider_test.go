package walk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// outsider is a running program of other authors.
type outsider struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	log    *logFile
	exited chan struct{}
}

// outside runs a program of other authors until the test ends.
func outside(t *testing.T, name string, args ...string) *outsider {
	t.Helper()
	o := &outsider{t: t, name: name, cmd: exec.Command(program(t, name), args...), log: new(logFile), exited: make(chan struct{})}
	o.cmd.Stdout, o.cmd.Stderr = o.log, o.log
	o.cmd.Env = append(os.Environ(), "KUBECONFIG=", "HOME="+t.TempDir())
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// It is killed with the thread that started it, and others end theirs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := o.cmd.Start()
		started <- err
		if err == nil {
			_ = o.cmd.Wait()
			close(o.exited)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.end)
	return o
}

// end asks the program to leave, which it must not have done by itself.
func (o *outsider) end() {
	select {
	case <-o.exited:
		o.t.Errorf("%s ended by itself: %v", o.name, o.cmd.ProcessState)
	default:
		_ = o.cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-o.exited:
	case <-time.After(30 * time.Second):
		o.t.Errorf("%s does not end on SIGTERM", o.name)
		_ = o.cmd.Process.Kill()
		<-o.exited
	}
	if o.t.Failed() {
		o.t.Logf("what %s logged last:\n%s", o.name, o.log)
	}
}

// credentials makes a service account with roles, as programs in a cluster
// have one, and writes a kubeconfig with its token. A role with a slash in it
// is one of that namespace.
func (c *cluster) credentials(t *testing.T, account string, roles ...string) (kubeconfig string) {
	t.Helper()
	const ns = "kube-system"
	c.must(t, c.kubectl, "create", "serviceaccount", account, "-n", ns)
	for i, role := range roles {
		bind := []string{"create", "clusterrolebinding", account + "-" + string(rune('a'+i)), "--clusterrole=" + role}
		if of, name, ok := strings.Cut(role, "/"); ok {
			bind = []string{"create", "rolebinding", account + "-" + string(rune('a'+i)), "-n", of, "--role=" + name}
		}
		c.must(t, c.kubectl, append(bind, "--serviceaccount="+ns+":"+account)...)
	}
	token := strings.TrimSpace(c.must(t, c.kubectl, "create", "token", account, "-n", ns, "--duration=1h"))
	config := clientcmdapi.NewConfig()
	config.Clusters["berth"] = &clientcmdapi.Cluster{Server: c.rest.Host, CertificateAuthorityData: c.rest.CAData}
	config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["berth"] = &clientcmdapi.Context{Cluster: "berth", AuthInfo: account}
	config.CurrentContext = "berth"
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}
