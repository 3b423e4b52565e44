package policy

import (
	"context"
	"time"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

const (
	collectEvery = 10 * time.Minute
	// unusedFor is how long a module may wait for the first policy to use it.
	unusedFor = time.Hour
)

// collect removes modules that no policy uses, has used lately, or will go
// back to.
func (l *Loader) collect(ctx context.Context) {
	policies, _, _, err := l.read()
	if err != nil {
		l.Log.Warn("collect modules", "err", err)
		return
	}
	used := map[string]bool{}
	for _, p := range policies {
		for _, name := range references(p) {
			if digest, err := Digest(name); err == nil {
				used[digest] = true
			}
		}
	}
	list, err := l.Objects.List(Modules, "", store.ListOptions{})
	if err != nil {
		l.Log.Warn("collect modules", "err", err)
		return
	}
	for _, o := range list.Items {
		m, ok := o.(*v1alpha1.Module)
		if !ok || used[m.Spec.Digest] || l.Now().Sub(m.CreationTimestamp.Time) < unusedFor {
			continue
		}
		l.drop(ctx, m)
	}
}

// references are all the modules that a Policy may need.
func references(p *v1alpha1.Policy) []string {
	names := []string{p.Spec.Module, p.Status.Live}
	if p.Spec.Canary != nil {
		names = append(names, p.Spec.Canary.Module)
	}
	for _, r := range p.Status.History {
		names = append(names, r.Module)
	}
	return names
}

// drop removes a module: the object first, so that nobody finds one without bytes.
func (l *Loader) drop(ctx context.Context, m *v1alpha1.Module) {
	_, _, err := l.Objects.Commit(ctx, store.Op{Kind: store.Delete, Key: store.Key{Resource: Modules, Name: m.Name}})
	if err == nil {
		err = l.Objects.DeleteBlob(ctx, m.Spec.Digest)
	}
	if err != nil {
		l.Log.Warn("collect module", "digest", m.Spec.Digest, "err", err)
		return
	}
	l.Log.Info("collected module that no policy uses", "digest", m.Spec.Digest)
}
