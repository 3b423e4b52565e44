package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster is one of this machine, by `berth up`.
type cluster struct {
	client kubernetes.Interface
	stop   func() error
}

// up starts `berth up` and waits until its node takes pods.
func up(ctx context.Context, tools, dir string) (*cluster, error) {
	cmd := exec.Command(filepath.Join(tools, "berth"), "up", "--data-dir", dir, "--listen", "127.0.0.1:6443", //nolint:gosec // this bench's own
		"--import-image", filepath.Join(tools, podsImage), "--log-level", "warn")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	c := &cluster{stop: func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), interrupted(<-ended)) }}
	ctx, cancel := context.WithTimeout(ctx, podsWithin)
	defer cancel()
	for !c.takesPods(ctx, filepath.Join(dir, "kubeconfig")) {
		select {
		case err := <-ended:
			return nil, fmt.Errorf("berth up ended: %w", err)
		case <-ctx.Done():
			return nil, errors.Join(errors.New("berth up: its node takes no pods"), c.stop())
		case <-time.After(lookEvery):
		}
	}
	return c, nil
}

// interrupted is the end of a program that was told to end by an interrupt.
func interrupted(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 130 {
		return nil
	}
	return err
}

func (c *cluster) takesPods(ctx context.Context, kubeconfig string) bool {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return false
	}
	config.QPS = -1
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return false
	}
	if _, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return false
	}
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	return err == nil && len(nodes.Items) > 0 && holds(nodes.Items[0].Status.Conditions, v1.NodeReady)
}

func holds(all []v1.NodeCondition, which v1.NodeConditionType) bool {
	for _, c := range all {
		if c.Type == which {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// ready makes pods at once, and tells when each was ready.
func (c *cluster) ready(ctx context.Context, n int) (times, error) {
	create := func(ctx context.Context) error {
		return each(ctx, n, n, func(ctx context.Context, _ int) error {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web", Image: podsName}}}}
			_, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, p, metav1.CreateOptions{})
			return err
		})
	}
	return c.until(ctx, n, create, func(e watch.EventType, p *v1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodReady {
				return e != watch.Deleted && c.Status == v1.ConditionTrue
			}
		}
		return false
	})
}

// gone deletes all pods at once, and tells when each was gone.
func (c *cluster) gone(ctx context.Context, n int) (times, error) {
	remove := func(ctx context.Context) error {
		return c.client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	return c.until(ctx, n, remove, func(e watch.EventType, _ *v1.Pod) bool { return e == watch.Deleted })
}

// until does something to n pods, and tells how long each took to be as is says.
func (c *cluster) until(ctx context.Context, n int, do func(context.Context) error, is func(watch.EventType, *v1.Pod) bool) (took times, err error) {
	ctx, cancel := context.WithTimeout(ctx, podsWithin)
	defer cancel()
	w, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	began := time.Now()
	did := make(chan error, 1)
	go func() { did <- do(ctx) }()
	seen := map[string]bool{}
	for e := range w.ResultChan() {
		p, ok := e.Object.(*v1.Pod)
		if !ok || seen[p.Name] || !is(e.Type, p) {
			continue
		}
		seen[p.Name] = true
		if took = append(took, time.Since(began)); len(took) == n {
			return took, <-did
		}
	}
	return took, errors.Join(fmt.Errorf("%d of %d pods within %s", len(took), n, podsWithin), <-did)
}
