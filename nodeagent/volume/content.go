package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/nodeagent/podspec"
)

// file is one file of a volume's content.
type file struct {
	data []byte
	mode int32
}

// content gathers the files of a volume that comes from the API.
func (v *Volumes) content(ctx context.Context, p *v1.Pod, vol *v1.Volume, facts podspec.Facts) (map[string]file, error) {
	g := &gatherer{Volumes: v, ctx: ctx, pod: p, volume: vol.Name, facts: facts, files: map[string]file{}, mode: v1.ConfigMapVolumeSourceDefaultMode}
	var err error
	switch {
	case vol.ConfigMap != nil:
		g.setMode(vol.ConfigMap.DefaultMode)
		err = g.configMap(vol.ConfigMap.Name, vol.ConfigMap.Items, vol.ConfigMap.Optional)
	case vol.Secret != nil:
		g.setMode(vol.Secret.DefaultMode)
		err = g.secret(vol.Secret.SecretName, vol.Secret.Items, vol.Secret.Optional)
	case vol.DownwardAPI != nil:
		g.setMode(vol.DownwardAPI.DefaultMode)
		err = g.downward(vol.DownwardAPI.Items)
	case vol.Projected != nil:
		g.setMode(vol.Projected.DefaultMode)
		err = g.projected(vol.Projected.Sources)
	}
	return g.files, err
}

type gatherer struct {
	*Volumes
	ctx    context.Context // of one call of content
	pod    *v1.Pod
	volume string
	facts  podspec.Facts
	mode   int32
	files  map[string]file
}

func (g *gatherer) setMode(mode *int32) {
	if mode != nil {
		g.mode = *mode
	}
}

func (g *gatherer) add(path string, data []byte, mode *int32) error {
	if !filepath.IsLocal(path) {
		return fmt.Errorf("path %q leads out of the volume", path)
	}
	m := g.mode
	if mode != nil {
		m = *mode
	}
	g.files[filepath.Clean(path)] = file{data: data, mode: m}
	return nil
}

func absent(err error, optional *bool) bool {
	return apierrors.IsNotFound(err) && optional != nil && *optional
}

// keyed adds all keys, or those that items name.
func (g *gatherer) keyed(what string, data map[string][]byte, items []v1.KeyToPath, optional *bool) error {
	if len(items) == 0 {
		for k, d := range data {
			if err := g.add(k, d, nil); err != nil {
				return err
			}
		}
		return nil
	}
	for _, it := range items {
		d, ok := data[it.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return fmt.Errorf("references non-existent %s key: %s", what, it.Key)
		}
		if err := g.add(it.Path, d, it.Mode); err != nil {
			return err
		}
	}
	return nil
}

func (g *gatherer) configMap(name string, items []v1.KeyToPath, optional *bool) error {
	cm, err := g.src.ConfigMap(g.ctx, g.pod.Namespace, name)
	if absent(err, optional) {
		return nil
	}
	if err != nil {
		return err
	}
	data := map[string][]byte{}
	for k, s := range cm.Data {
		data[k] = []byte(s)
	}
	for k, b := range cm.BinaryData {
		data[k] = b
	}
	return g.keyed("config", data, items, optional)
}

func (g *gatherer) secret(name string, items []v1.KeyToPath, optional *bool) error {
	s, err := g.src.Secret(g.ctx, g.pod.Namespace, name)
	if absent(err, optional) {
		return nil
	}
	if err != nil {
		return err
	}
	return g.keyed("secret", s.Data, items, optional)
}

func (g *gatherer) downward(items []v1.DownwardAPIVolumeFile) error {
	for _, it := range items {
		var (
			text string
			err  error
		)
		switch {
		case it.FieldRef != nil:
			text, err = podspec.Field(g.pod, it.FieldRef.FieldPath, g.facts)
		case it.ResourceFieldRef != nil:
			text, err = podspec.Resource(g.pod, nil, it.ResourceFieldRef, g.facts.Allocatable)
		default:
			err = errors.New("neither fieldRef nor resourceFieldRef is set")
		}
		if err != nil {
			return err
		}
		if err := g.add(it.Path, []byte(text), it.Mode); err != nil {
			return err
		}
	}
	return nil
}

func (g *gatherer) projected(sources []v1.VolumeProjection) error {
	for _, s := range sources {
		var err error
		switch {
		case s.ConfigMap != nil:
			err = g.configMap(s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional)
		case s.Secret != nil:
			err = g.secret(s.Secret.Name, s.Secret.Items, s.Secret.Optional)
		case s.DownwardAPI != nil:
			err = g.downward(s.DownwardAPI.Items)
		case s.ServiceAccountToken != nil:
			err = g.token(s.ServiceAccountToken)
		default:
			err = errors.New("this kind of projected source is not supported")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type tokenKey struct {
	uid, volume, path, audience string
}

type token struct {
	text    string
	renew   time.Time
	expires time.Time
}

// token asks for a token bound to the pod, or gives the one that is still good:
// renewed when a fifth of its life is left, or after a day.
func (g *gatherer) token(t *v1.ServiceAccountTokenProjection) error {
	key := tokenKey{uid: string(g.pod.UID), volume: g.volume, path: t.Path, audience: t.Audience}
	g.mu.Lock()
	have, ok := g.tokens[key]
	g.mu.Unlock()
	now := time.Now()
	if !ok || now.After(have.renew) {
		fresh, err := g.request(t, now)
		switch {
		case err == nil:
			have = fresh
			g.mu.Lock()
			g.tokens[key] = have
			g.mu.Unlock()
		case !ok || now.After(have.expires):
			return fmt.Errorf("service account token: %w", err)
		}
	}
	mode := g.mode
	if fsGroup(g.pod) != nil {
		mode = 0o640
	}
	return g.add(t.Path, []byte(have.text), &mode)
}

func (g *gatherer) request(t *v1.ServiceAccountTokenProjection, now time.Time) (token, error) {
	req := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{
		ExpirationSeconds: t.ExpirationSeconds,
		BoundObjectRef:    &authv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: g.pod.Name, UID: g.pod.UID},
	}}
	if t.Audience != "" {
		req.Spec.Audiences = []string{t.Audience}
	}
	account := g.pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	got, err := g.src.Token(g.ctx, g.pod.Namespace, account, req)
	if err != nil {
		return token{}, err
	}
	life := got.Status.ExpirationTimestamp.Sub(now)
	return token{text: got.Status.Token, renew: now.Add(min(life*4/5, 24*time.Hour)), expires: got.Status.ExpirationTimestamp.Time}, nil
}
