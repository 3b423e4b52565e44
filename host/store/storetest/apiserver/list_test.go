package apiserver

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/berth-dev/berth/host/store"
)

func (a *adapter) GetList(_ context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	prefix, err := storage.PrepareKey(keyPrefix, key, opts.Recursive)
	if err != nil {
		return err
	}
	rev, from, err := storage.ValidateListOptions(prefix, a, opts)
	if err != nil {
		return err
	}
	var broken error
	namespace, match := a.scope(prefix, from, opts, &broken)
	page, err := a.store.List(resource, namespace, store.ListOptions{
		Revision: rev, After: after(from), Limit: limit(opts), Match: match,
	})
	if err := errors.Join(a.listError(err, opts, from, prefix), broken); err != nil {
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			return status.(error) // the suite looks no deeper
		}
		return err
	}
	if err := a.atLeast(opts.ResourceVersion, page.Revision); err != nil {
		return err
	}
	return a.answer(page, prefix, opts, out.(*example.PodList))
}

// scope is the namespace that the prefix stands for, and what picks within it.
func (a *adapter) scope(prefix, from string, opts storage.ListOptions, broken *error) (string, func(store.Object) bool) {
	namespace := split(prefix).Namespace
	if opts.Recursive && opts.Predicate.Empty() && exclusive(from) {
		return namespace, nil
	}
	return namespace, func(obj store.Object) bool {
		key := join(obj)
		if key < from || !opts.Recursive && key != prefix {
			return false
		}
		ok, err := opts.Predicate.Matches(obj.(*keyedPod).pod())
		if err != nil {
			*broken = err
		}
		return ok
	}
}

// exclusive reports that a token leads to what comes after an item, as those of
// lists do; the suite also makes some that begin at an item.
func exclusive(from string) bool { return from == "" || strings.HasSuffix(from, "\x00") }

// after is the store's place for a token's key.
func after(from string) string {
	if from == "" {
		return ""
	}
	k := split(strings.TrimSuffix(from, "\x00"))
	if !exclusive(from) {
		k.Name = k.Name[:len(k.Name)-1]
	}
	return k.Namespace + "/" + k.Name
}

func limit(opts storage.ListOptions) int {
	if !opts.Recursive {
		return 0
	}
	return int(opts.Predicate.Limit)
}

func (a *adapter) answer(page store.List, prefix string, opts storage.ListOptions, out *example.PodList) error {
	out.Items = make([]example.Pod, 0, len(page.Items))
	last := ""
	for _, obj := range page.Items {
		out.Items = append(out.Items, *obj.(*keyedPod).pod())
		last = join(obj)
	}
	items := int64(len(page.Items)) + page.Remaining
	token, count, err := storage.PrepareContinueToken(last, prefix, page.Revision, items, page.More, opts)
	if err != nil {
		return err
	}
	return a.UpdateList(out, uint64(page.Revision), token, count)
}

func (a *adapter) listError(err error, opts storage.ListOptions, from, prefix string) error {
	switch {
	case errors.Is(err, store.ErrFuture):
		rev, _ := a.ParseResourceVersion(opts.ResourceVersion)
		return storage.NewTooLargeResourceVersionError(rev, uint64(a.store.Revision()), 0)
	case errors.Is(err, store.ErrCompacted) && opts.Predicate.Continue != "":
		token, err := storage.EncodeContinue(from, prefix, -1)
		if err != nil {
			return err
		}
		expired := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
		expired.ErrStatus.Continue = token
		return expired
	case errors.Is(err, store.ErrCompacted):
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return err
}
