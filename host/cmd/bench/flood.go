package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

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
func measureFlood(ctx context.Context, _ *options) ([]table, error) {
	t := table{Name: "flood", Title: "A flood by one tenant, and what others see, who send 100 requests a second; clients and server on the same cores"}
	err := onRig(ctx, func(r *rig) error { return r.flood(ctx, &t) })
	return []table{t}, err
}

func (r *rig) flood(ctx context.Context, t *table) error {
	if err := r.prepare(ctx, workload{nodes: 100, zones: []string{"zone-1"}}, 8); err != nil {
		return err
	}
	config, err := r.tenant(ctx)
	if err != nil {
		return err
	}
	say("flood: the API of an idle host")
	idle, err := r.ask(ctx, func(ctx context.Context) error { return pause(ctx, idleFor) })
	if err != nil {
		return err
	}
	add := func(name string, took times) {
		t.Rows = append(t.Rows, row{Name: name}.with("p50", millis(took.at(0.5)), "ms").with("p99", millis(took.at(0.99)), "ms").
			with("p99 to idle", ratio(took.at(0.99), idle.at(0.99)), "×"))
	}
	add("nothing else going on", idle)
	aim := func() { last := &t.Rows[len(t.Rows)-1]; *last = last.judged("p99 to idle", atMost, aimFlood) }

	say("flood: %d watches by one tenant", floodWatches)
	stop, err := r.floodWatches(ctx, config)
	if err != nil {
		return err
	}
	took, err := r.ask(ctx, func(ctx context.Context) error { return pause(ctx, floodFor) })
	add("10,000 watches, at rest", took)
	aim()
	events := atomic.Int64{}
	if err == nil {
		took, err = r.ask(ctx, func(ctx context.Context) error { return r.emitFor(ctx, floodFor, &events) })
		add(fmt.Sprintf("10,000 watches, which get %d events each", events.Load()), took)
		aim()
	}
	stop()
	if err != nil {
		return err
	}
	say("flood: %d uploads at once", floodUploads)
	var kept, refused int
	took, err = r.ask(ctx, func(ctx context.Context) (err error) {
		kept, refused, err = r.floodUploads(ctx, config)
		return err
	})
	add(fmt.Sprintf("1,000 uploads at once, of which %d are kept and %d refused", kept, refused), took)
	aim()
	return err
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
	var token *authenticationv1.TokenRequest
	err := retry.OnError(retry.DefaultRetry, func(error) bool { return true }, func() (err error) {
		token, err = accounts.CreateToken(ctx, tenant, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(r.config)
	config.BearerToken = token.Status.Token
	return config, nil
}

// floodWatches opens the watches, and reads them until stop.
func (r *rig) floodWatches(ctx context.Context, config *rest.Config) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	clients := make([]*web, floodConns)
	for i := range clients {
		if clients[i], err = webAs(config); err != nil {
			cancel()
			return nil, err
		}
	}
	var reading sync.WaitGroup
	stop = func() {
		cancel()
		reading.Wait()
		closeWebs(clients)
	}
	err = each(ctx, floodConns, floodWatches, func(_ context.Context, i int) error {
		body, err := clients[i%len(clients)].open(ctx, http.MethodGet, "/api/v1/namespaces/"+second+"/configmaps?watch=1", "", asProtobuf+";stream=watch", nil)
		if err != nil {
			return err
		}
		reading.Go(func() {
			defer body.Close()
			_, _ = io.Copy(io.Discard, body)
		})
		return nil
	})
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// emitFor makes an event a second for the watches.
func (r *rig) emitFor(ctx context.Context, d time.Duration, events *atomic.Int64) error {
	for range int(d / time.Second) {
		if _, err := r.client.CoreV1().ConfigMaps(second).Create(ctx, small(second), metav1.CreateOptions{}); err != nil {
			return err
		}
		events.Add(1)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// floodUploads uploads as many modules at once, each another one.
func (r *rig) floodUploads(ctx context.Context, config *rest.Config) (kept, turned int, err error) {
	wasm, err := predicates()
	if err != nil {
		return 0, 0, err
	}
	client, err := webAs(config)
	if err != nil {
		return 0, 0, err
	}
	defer closeWebs([]*web{client})
	var mu sync.Mutex
	err = each(ctx, floodUploads, floodUploads, func(ctx context.Context, i int) error {
		_, err := client.do(ctx, http.MethodPost, policyAPI+"/modules", "application/wasm", asJSON, marked(wasm, fmt.Sprint("flood ", i)))
		mu.Lock()
		defer mu.Unlock()
		var no *refused
		switch {
		case err == nil:
			kept++
		case errors.As(err, &no) && no.status < http.StatusInternalServerError:
			turned++
		default:
			return err
		}
		return nil
	})
	return kept, turned, err
}
