package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/host/auth/authz"
)

// The flood, and the aim: the p99 of others is at most so many times the idle one.
const (
	floodWatches = 10_000
	floodConns   = 50
	floodUploads = 1_000
	floodFor     = 10 * time.Second
	tenant       = "tenant"
	aimFlood     = 5
)

// measureFlood measures what a flood of watches, and one of uploads, of one user does
// to the requests of others.
func measureFlood(ctx context.Context, o *options) ([]table, error) {
	t := table{Name: "flood", Title: "A flood by one tenant, and what others see, who send 100 requests a second; all on the same cores"}
	err := onRig(ctx, func(r *rig) error { return r.flood(ctx, &t, profiled(o.cpuProfile)) })
	return []table{t}, err
}

func (r *rig) flood(ctx context.Context, t *table, profiled func(func() error) error) error {
	if err := r.prepare(ctx, workload{nodes: 100, zones: []string{"zone-1"}}, 8); err != nil {
		return err
	}
	config, err := r.tenant(ctx)
	if err != nil {
		return err
	}
	var idle times
	during := func(name string, do func(context.Context) (string, error)) error {
		say("flood: %s", name)
		var more string
		took, err := r.ask(ctx, func(ctx context.Context) (err error) {
			more, err = do(ctx)
			return err
		})
		if idle == nil {
			idle = took
		}
		line := row{Name: name + more}.with("p50", millis(took.at(0.5)), "ms").with("p99", millis(took.at(0.99)), "ms").
			with("p99 to idle", ratio(took.at(0.99), idle.at(0.99)), "×")
		if len(t.Rows) > 0 {
			line = line.judged("p99 to idle", atMost, aimFlood)
		}
		t.Rows = append(t.Rows, line)
		return err
	}
	rest := func(ctx context.Context) (string, error) { return "", pause(ctx, floodFor) }
	if err := during("nothing else going on", rest); err != nil {
		return err
	}
	stop, _, err := flooding(ctx, config, "watch")
	if err != nil {
		return err
	}
	err = errors.Join(during("10,000 watches, at rest", rest), during("10,000 watches, each with an event a second", func(ctx context.Context) (string, error) {
		return "", profiled(func() error { return r.emitFor(ctx, floodFor) })
	}))
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	return during("1,000 uploads at once", func(ctx context.Context) (string, error) {
		stop, said, err := flooding(ctx, config, "upload")
		if err != nil {
			return "", err
		}
		return ", of which " + said, stop()
	})
}

// tenant makes a user who may watch ConfigMaps and upload modules.
func (r *rig) tenant(ctx context.Context) (*rest.Config, error) {
	accounts := r.client.CoreV1().ServiceAccounts(second)
	if _, err := accounts.Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	for _, role := range []string{"view", authz.RoleAuthor} {
		b := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: tenant + "-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: second, Name: tenant}},
		}
		if _, err := r.client.RbacV1().ClusterRoleBindings().Create(ctx, b, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	token, err := accounts.CreateToken(ctx, tenant, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(r.config)
	config.BearerToken = token.Status.Token
	return config, nil
}

// emitFor makes an event a second for the watches.
func (r *rig) emitFor(ctx context.Context, d time.Duration) error {
	for range int(d / time.Second) {
		if _, err := r.client.CoreV1().ConfigMaps(second).Create(ctx, small(second), metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// floodProcess is what this program is told to be the tenant.
const floodProcess = "flood-tenant"

// flooding runs the tenant as a process of its own, as others' clients are, and waits
// until it has said that the flood is there. It goes on until stop.
func flooding(ctx context.Context, config *rest.Config, what string) (stop func() error, said string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(ctx, self, floodProcess, what, config.Host)
	cmd.Env = append(os.Environ(), "BERTH_BENCH_TOKEN="+config.BearerToken, "BERTH_BENCH_CA="+string(config.CAData))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("the tenant's process said nothing: %w", err), stop())
	}
	return stop, strings.TrimSpace(line), nil
}

// floodTenant is the tenant's process: it says when it is there, and ends with its input.
func floodTenant(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s is started by the table flood", floodProcess)
	}
	config := &rest.Config{Host: args[1], BearerToken: os.Getenv("BERTH_BENCH_TOKEN")}
	config.CAData = []byte(os.Getenv("BERTH_BENCH_CA"))
	// It stands back, since a client has processors of its own.
	if _, _, e := syscall.AllThreadsSyscall(syscall.SYS_SETPRIORITY, syscall.PRIO_PROCESS, 0, 19); e != 0 {
		return e
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	said := "there"
	var err error
	if args[0] == "watch" {
		err = watchMuch(ctx, config)
	} else {
		said, err = uploadMuch(ctx, config)
	}
	if err != nil {
		return err
	}
	fmt.Println(said)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// watchMuch opens the watches, which are read until ctx is done.
func watchMuch(ctx context.Context, config *rest.Config) (err error) {
	clients := make([]*web, floodConns)
	for i := range clients {
		if clients[i], err = webAs(config); err != nil {
			return err
		}
	}
	return each(ctx, floodConns, floodWatches, func(_ context.Context, i int) error {
		body, err := clients[i%len(clients)].open(ctx, http.MethodGet, "/api/v1/namespaces/"+second+"/configmaps?watch=1", "", asProtobuf+";stream=watch", nil)
		if err != nil {
			return err
		}
		go func() {
			defer body.Close()
			_, _ = io.Copy(io.Discard, body)
		}()
		return nil
	})
}

// uploadMuch uploads as many modules at once, each another one, and says what became
// of them.
func uploadMuch(ctx context.Context, config *rest.Config) (string, error) {
	wasm, err := predicates()
	if err != nil {
		return "", err
	}
	client, err := webAs(config)
	if err != nil {
		return "", err
	}
	defer closeWebs([]*web{client})
	var kept, turned atomic.Int32
	err = each(ctx, floodUploads, floodUploads, func(ctx context.Context, i int) error {
		_, err := client.do(ctx, http.MethodPost, policyAPI+"/modules", "application/wasm", asJSON, marked(wasm, fmt.Sprint("flood ", i)))
		var no *refused
		switch {
		case err == nil:
			kept.Add(1)
		case errors.As(err, &no) && no.status < http.StatusInternalServerError:
			turned.Add(1)
		default:
			return err
		}
		return nil
	})
	return fmt.Sprintf("%d are kept and %d refused", kept.Load(), turned.Load()), err
}
