package containerd_test

import (
	"context"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	ociv1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/berth-dev/berth/nodeagent/image/containerd"
	"github.com/berth-dev/berth/nodeagent/image/testimage"
	"github.com/berth-dev/berth/nodeagent/runtime"
	runtimecontainerd "github.com/berth-dev/berth/nodeagent/runtime/containerd"
)

// dataImage brings an image of two layers onto the node: nothing in it runs.
func (n *node) dataImage(t *testing.T) string {
	t.Helper()
	lower, err := testimage.Build([]testimage.File{
		{Path: "/model/weights", Mode: 0o644, Data: []byte("old")},
		{Path: "/model/vocabulary", Mode: 0o644, Data: []byte("words")},
		{Path: "/outside", Link: "../../../../../../etc"},
		{Path: "/inside", Link: "model"},
	}, ociv1.Config{})
	if err != nil {
		t.Fatal(err)
	}
	upper, err := testimage.Build([]testimage.File{{Path: "/model/weights", Mode: 0o644, Data: []byte("new")}}, ociv1.Config{})
	if err != nil {
		t.Fatal(err)
	}
	layers, err := upper.Layers()
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(lower, layers...)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := testimage.Archive("berth.test/data:1", img)
	if err != nil {
		t.Fatal(err)
	}
	imgs, err := n.images().Import(t.Context(), archive)
	if err != nil {
		t.Fatal(err)
	}
	return imgs[0].ID
}

func (n *node) images() *containerd.Store {
	return containerd.New(containerd.Config{
		Client: n.runtime.Client(), Snapshotter: n.runtime.Snapshotter(), Root: n.cfg.Root, Log: n.cfg.Log,
	})
}

// views lists the snapshots of mounted images.
func (n *node) views(t *testing.T) (names []string) {
	t.Helper()
	ctx := namespaces.WithNamespace(t.Context(), runtimecontainerd.Namespace)
	err := n.runtime.Client().SnapshotService(n.runtime.Snapshotter()).Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		if info.Kind == snapshots.KindView {
			names = append(names, info.Name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func testImageVolume(t *testing.T, n *node) {
	data := n.dataImage(t)
	p := n.pod(t, nil)
	with := func(script, sub string) runtime.ContainerConfig {
		cfg := p.config(script)
		cfg.Mounts = []runtime.Mount{{Image: data, SubPath: sub, ContainerPath: "/data", ReadOnly: true}}
		return cfg
	}
	for _, tt := range []struct{ script, sub, want string }{
		{"cat /data/model/weights /data/model/vocabulary; ! touch /data/x 2>/dev/null", "", "newwords"},
		{"cat /data/weights", "model", "new"},
		{"cat /data/weights", "inside", "new"},
	} {
		if got := strings.TrimSpace(p.output(with(tt.script, tt.sub))); got != tt.want {
			t.Errorf("subPath %q: %s says %q, want %q", tt.sub, tt.script, got, tt.want)
		}
	}
	for _, tt := range []struct{ sub, want string }{
		{"outside", "escapes"}, {"../etc", "escapes"}, {"absent", "no such file"}, {"model/weights", "only directory subpath"},
	} {
		_, err := n.runtime.CreateContainer(t.Context(), p.id, with("true", tt.sub))
		if err == nil || !strings.Contains(err.Error(), "ImageVolumeMountFailed") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("subPath %q: %v, want %q", tt.sub, err, tt.want)
		}
	}
	if got := n.views(t); len(got) != 1 {
		t.Errorf("snapshots %q, want one of the sandbox", got)
	}

	// The image may go while it is mounted, and so may the agent.
	if err := n.images().Remove(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	n.reopen(t)
	if got := strings.TrimSpace(p.output(with("cat /data/weights", "model"))); got != "new" {
		t.Errorf("after a restart without the image: %q", got)
	}
	if err := n.runtime.RemoveSandbox(t.Context(), p.id); err != nil {
		t.Fatal(err)
	}
	if got := n.views(t); len(got) != 0 {
		t.Errorf("snapshots are left: %q", got)
	}
}
