package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/volume"
)

// wanted is an image that a pod wants, and where what becomes of it is told.
type wanted struct {
	ref    string
	policy v1.PullPolicy
	tell   func(kind, reason, format string, args ...any)
}

// imageOf is the image that a container runs.
func (w *worker) imageOf(r *pod.Record, c pod.Spec) wanted {
	return wanted{ref: c.Image, policy: c.ImagePullPolicy, tell: func(kind, reason, format string, args ...any) {
		w.containerEvent(r, c.Name, kind, reason, format, args...)
	}}
}

// volumeImages gives the ids of the images that a container mounts, by their
// references, pulling them where their volumes' policies say so.
func (w *worker) volumeImages(ctx context.Context, r *pod.Record, c pod.Spec) (map[string]string, error) {
	ids := map[string]string{}
	for _, m := range c.VolumeMounts {
		src := volume.ImageOf(r.Pod, m.Name)
		if src == nil || ids[src.Reference] != "" {
			continue
		}
		img, err := w.ensureImage(ctx, r, wanted{ref: src.Reference, policy: src.PullPolicy, tell: func(kind, reason, format string, args ...any) {
			w.event(r, kind, reason, format, args...)
		}})
		if err != nil {
			return nil, err
		}
		ids[src.Reference] = img.ID
	}
	return ids, nil
}

// ensureImage gives an image, pulling it where its policy says so.
func (w *worker) ensureImage(ctx context.Context, r *pod.Record, want wanted) (image.Image, error) {
	policy := want.policy
	if policy == "" {
		policy = v1.PullIfNotPresent
		if image.Latest(want.ref) {
			policy = v1.PullAlways
		}
	}
	if policy == v1.PullAlways {
		return w.pull(ctx, r, want)
	}
	img, err := w.Images.Get(ctx, want.ref)
	if err == nil && w.mayUse(ctx, r, img, want) {
		want.tell(v1.EventTypeNormal, "Pulled", "Container image %q already present on machine and can be accessed by the pod", want.ref)
		return img, nil
	}
	if errors.Is(err, image.ErrInvalidName) {
		return img, want.invalid(err)
	}
	if ctx.Err() != nil {
		return img, ctx.Err() // the pod is told to stop: nothing is wrong with its image
	}
	if err != nil && !errors.Is(err, image.ErrNotFound) {
		message := fmt.Sprintf("Failed to inspect image %q: %v", want.ref, err)
		want.tell(v1.EventTypeWarning, "InspectFailed", "%s", message)
		return img, &setback{reason: "ImageInspectError", message: message, image: want.ref, pull: true, told: true}
	}
	if policy == v1.PullNever {
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", want.ref)
		want.tell(v1.EventTypeWarning, "ErrImageNeverPull", "%s", message)
		return img, &setback{reason: "ErrImageNeverPull", message: message, told: true}
	}
	return w.pull(ctx, r, want)
}

// mayUse says whether a pod may run a present image that somebody else may have
// pulled by credentials of theirs. Who may not is told no more than of an image
// that is absent.
func (w *worker) mayUse(ctx context.Context, r *pod.Record, img image.Image, want wanted) bool {
	if w.Pulls.MayUse(img.ID, want.ref, nil) {
		return true
	}
	creds, err := w.credentials(ctx, r.Pod, want.ref)
	if err != nil {
		w.event(r, v1.EventTypeWarning, "FailedToRetrieveImagePullSecret", "%v", err)
	}
	return w.Pulls.MayUse(img.ID, want.ref, creds)
}

// fetch pulls an image by the first of the credentials that its registry takes,
// and remembers which that was.
func (w *worker) fetch(ctx context.Context, ref string, creds []image.Credential, progress func(image.Progress)) (img image.Image, err error) {
	if err := w.Pulls.Begin(ref); err != nil {
		return img, err
	}
	if len(creds) == 0 {
		if img, err = w.Images.Pull(ctx, ref, nil, progress); err == nil {
			return img, w.Pulls.Pulled(img.ID, ref, nil)
		}
	}
	for i := range creds {
		if img, err = w.Images.Pull(ctx, ref, creds[i:i+1], progress); err == nil {
			return img, w.Pulls.Pulled(img.ID, ref, &creds[i])
		}
		if !errors.Is(err, image.ErrUnauthorized) {
			break
		}
	}
	return img, errors.Join(err, w.Pulls.Failed(ref))
}

func (want wanted) invalid(err error) *setback {
	message := fmt.Sprintf("Failed to apply default image tag %q: %v", want.ref, err)
	want.tell(v1.EventTypeWarning, "InspectFailed", "%s", message)
	return &setback{reason: "InvalidImageName", message: message, image: want.ref, pull: true, told: true}
}

func (w *worker) pull(ctx context.Context, r *pod.Record, want wanted) (image.Image, error) {
	creds, err := w.credentials(ctx, r.Pod, want.ref)
	if err != nil {
		w.event(r, v1.EventTypeWarning, "FailedToRetrieveImagePullSecret", "%v", err)
	}
	want.tell(v1.EventTypeNormal, "Pulling", "Pulling image %q", want.ref)
	began := time.Now()
	img, err := w.fetch(ctx, want.ref, creds, want.progress(began))
	if err == nil {
		want.tell(v1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %s. Image size: %d bytes.",
			want.ref, time.Since(began).Round(time.Millisecond), img.Size)
		return img, nil
	}
	if errors.Is(err, image.ErrInvalidName) {
		return img, want.invalid(err)
	}
	if ctx.Err() == nil {
		want.tell(v1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", want.ref, err)
	}
	if errors.Is(err, image.ErrUnavailable) {
		return img, &setback{reason: "RegistryUnavailable", image: want.ref, pull: true, told: true,
			message: fmt.Sprintf("image pull failed for %s because the registry is unavailable: %v", want.ref, err)}
	}
	return img, &setback{reason: "ErrImagePull", message: err.Error(), image: want.ref, pull: true, told: true}
}

// firstProgress is after how long a pull is told of that goes on; after that it is
// told of when it has taken twice as long.
const firstProgress = 10 * time.Second

// progress tells of a pull that began then, as long as it goes on.
func (want wanted) progress(began time.Time) func(image.Progress) {
	next := firstProgress
	return func(p image.Progress) {
		took := time.Since(began)
		if took < next {
			return
		}
		for next <= took {
			next *= 2
		}
		want.tell(v1.EventTypeNormal, "Pulling", "Still pulling image %q after %s: %s of %s so far",
			want.ref, took.Round(time.Second), size(p.Done), size(max(p.Done, p.Total)))
	}
}

// size is a number of bytes as people read it.
func size(n int64) string {
	const mebi = 1 << 20
	if n < mebi {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/mebi)
}

// credentials finds those that fit an image: of the pod's pull secrets, and then
// the machine's own.
func (w *worker) credentials(ctx context.Context, p *v1.Pod, ref string) ([]image.Credential, error) {
	var (
		out  []image.Credential
		errs []error
	)
	for _, s := range p.Spec.ImagePullSecrets {
		secret, err := w.Objects.Secret(ctx, p.Namespace, s.Name)
		if err != nil {
			errs = append(errs, fmt.Errorf("unable to retrieve image pull secret %s/%s: %w", p.Namespace, s.Name, err))
			continue
		}
		found, err := image.Credentials(secret, ref)
		if err != nil {
			errs = append(errs, err)
		}
		out = append(out, found...)
	}
	if w.Keyring != nil {
		found, err := w.Keyring.Credentials(ctx, ref)
		errs, out = append(errs, err), append(out, found...)
	}
	return out, errors.Join(errs...)
}
