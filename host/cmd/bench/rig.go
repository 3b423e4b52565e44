package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host"
)

// rig is a host of its own, with a client.
//
// It is large because each table of the benchmarks drives the same host, from a
// file of its own.
type rig struct {
	client     kubernetes.Interface
	config     *rest.Config
	kubeconfig string
	dir        string
	stop       func() error
}

// newRig runs a host over dir until stop. It logs what is of that level.
func newRig(ctx context.Context, dir string, level slog.Level, changes ...func(*host.Config)) (*rig, error) {
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan host.Serving, 1), make(chan error, 1)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	config := host.Config{
		DataDir: dir, Listen: "127.0.0.1:0", Log: log,
		// The nodes are plain objects: nobody renews their leases.
		NodeGrace: 24 * time.Hour,
	}
	for _, change := range changes {
		change(&config)
	}
	go func() { ended <- host.Run(ctx, config, func(s host.Serving) { ready <- s }) }()
	r := &rig{dir: dir, stop: func() error { cancel(); return <-ended }}
	select {
	case s := <-ready:
		if err := r.connect(s); err != nil {
			return nil, errors.Join(err, r.stop())
		}
		return r, nil
	case err := <-ended:
		cancel()
		return nil, err
	}
}

func (r *rig) connect(s host.Serving) (err error) {
	r.kubeconfig = s.Kubeconfig
	if r.config, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig); err != nil {
		return err
	}
	r.config.QPS, r.config.ContentType = -1, apiruntime.ContentTypeProtobuf
	r.client, err = kubernetes.NewForConfig(r.config)
	return err
}

// onRig runs do on a host of its own, in a folder that goes with it.
func onRig(ctx context.Context, do func(*rig) error, changes ...func(*host.Config)) (err error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := newRig(ctx, dir, slog.LevelWarn, changes...)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := r.stop(); err == nil {
			err = stopped
		}
	}()
	return do(r)
}
