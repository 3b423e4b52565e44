package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/berth-dev/berth/host/store"
)

const (
	resource  = "pods"
	keyPrefix = "/pods/"
)

// keyedPod is a pod under the key that the suite chose, whatever the pod's name.
type keyedPod struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Pod *example.Pod
}

func (k *keyedPod) DeepCopyObject() runtime.Object {
	return &keyedPod{k.TypeMeta, *k.ObjectMeta.DeepCopy(), k.Pod.DeepCopy()}
}

// pod is a copy of the caller's own, at the revision of what is kept.
func (k *keyedPod) pod() *example.Pod {
	pod := k.Pod.DeepCopy()
	pod.ResourceVersion = k.ResourceVersion
	return pod
}

type codec struct{}

func (codec) Encode(obj store.Object) ([]byte, error) {
	k := obj.(*keyedPod)
	body, err := json.Marshal(k.Pod)
	return append([]byte(join(k)+"\n"), body...), err
}

func (codec) Decode(_ string, data []byte) (store.Object, error) {
	name, body, _ := strings.Cut(string(data), "\n")
	k := keep(split(name), &example.Pod{})
	return k, json.Unmarshal([]byte(body), k.Pod)
}

// adapter is a storage.Interface of pods over a store.
type adapter struct {
	storage.APIObjectVersioner
	store     *store.Store
	compacted int64
}

var _ storage.Interface = &adapter{}

func (a *adapter) Versioner() storage.Versioner                        { return a.APIObjectVersioner }
func (a *adapter) ReadinessCheck() error                               { return a.store.Err() }
func (a *adapter) RequestWatchProgress(context.Context) error          { return nil }
func (a *adapter) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }
func (a *adapter) CompactRevision() int64                              { return a.compacted }

func (a *adapter) Stats(context.Context) (storage.Stats, error) {
	return storage.Stats{ObjectCount: int64(a.store.Stats().Resources[resource].Objects)}, nil
}

func (a *adapter) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return uint64(a.store.Revision()), nil
}

// storeKey takes the last part of the suite's key for the name, and what is
// between that and the resource for the namespace.
func storeKey(key string) (store.Key, error) {
	prepared, err := storage.PrepareKey(keyPrefix, key, false)
	return split(prepared), err
}

func split(key string) store.Key {
	key = strings.TrimPrefix(key, keyPrefix)
	i := strings.LastIndexByte(key, '/')
	return store.Key{Resource: resource, Namespace: key[:max(i, 0)], Name: key[i+1:]}
}

func join(obj store.Object) string {
	if obj.GetNamespace() == "" {
		return keyPrefix + obj.GetName()
	}
	return keyPrefix + obj.GetNamespace() + "/" + obj.GetName()
}

func (a *adapter) Create(ctx context.Context, key string, obj, out runtime.Object, _ uint64) error {
	k, err := storeKey(key)
	if err != nil {
		return err
	}
	pod := obj.(*example.Pod).DeepCopy()
	if pod.ResourceVersion != "" {
		return storage.ErrResourceVersionSetOnCreate
	}
	if err := a.PrepareObjectForStorage(pod); err != nil {
		return err
	}
	_, objs, err := a.store.Commit(ctx, store.Op{Kind: store.Create, Key: k, Object: keep(k, pod)})
	if err != nil {
		return interpret(k, err)
	}
	give(objs[0], out)
	return nil
}

func keep(k store.Key, pod *example.Pod) *keyedPod {
	return &keyedPod{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}, Pod: pod}
}

func give(obj store.Object, out runtime.Object) {
	if out != nil {
		*out.(*example.Pod) = *obj.(*keyedPod).pod()
	}
}

func interpret(k store.Key, err error) error {
	switch {
	case errors.Is(err, store.ErrExists):
		return storage.NewKeyExistsError(k.Name, 0)
	case errors.Is(err, store.ErrNotFound):
		return storage.NewKeyNotFoundError(k.Name, 0)
	case errors.Is(err, store.ErrConflict):
		return storage.NewResourceVersionConflictsError(k.Name, 0)
	}
	return err
}

func (a *adapter) Get(_ context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	k, err := storeKey(key)
	if err != nil {
		return err
	}
	if err := a.atLeast(opts.ResourceVersion, a.store.Revision()); err != nil {
		return err
	}
	obj, ok := a.store.Get(k)
	if ok {
		give(obj, out)
		return nil
	}
	if opts.IgnoreNotFound {
		return runtime.SetZeroValue(out)
	}
	return storage.NewKeyNotFoundError(k.Name, 0)
}

func (a *adapter) atLeast(minimum string, have int64) error {
	if minimum == "" {
		return nil
	}
	rev, err := a.ParseResourceVersion(minimum)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if rev > uint64(have) {
		return storage.NewTooLargeResourceVersionError(rev, uint64(have), 0)
	}
	return nil
}

// state is what an update or deletion starts from: the caller's suggestion at
// first, if there is one, then what the store has.
type state struct {
	pod     *example.Pod
	rev     int64
	current bool
}

func (a *adapter) state(k store.Key, suggestion runtime.Object, ignoreNotFound bool) (state, error) {
	if suggestion != nil {
		pod := suggestion.(*example.Pod).DeepCopy()
		rev, err := a.ObjectResourceVersion(pod)
		return state{pod, int64(rev), false}, err
	}
	obj, ok := a.store.Get(k)
	if !ok && ignoreNotFound {
		return state{&example.Pod{}, 0, true}, nil
	}
	if !ok {
		return state{}, storage.NewKeyNotFoundError(k.Name, 0)
	}
	pod := obj.(*keyedPod).pod()
	rev, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	return state{pod, rev, true}, err
}

// attempt runs a change until it succeeds on the newest state. What fails on a
// suggestion is tried again, if the store has another state than suggested.
func (a *adapter) attempt(k store.Key, suggestion runtime.Object, ignoreNotFound bool, try func(state) error) error {
	st, err := a.state(k, suggestion, ignoreNotFound)
	for err == nil {
		err = try(st)
		if err == nil || st.current && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) {
			return interpret(k, err)
		}
		failed, was := err, st
		if st, err = a.state(k, nil, ignoreNotFound); err == nil && !was.current && st.rev == was.rev {
			return interpret(k, failed)
		}
	}
	return err
}

func (a *adapter) Delete(ctx context.Context, key string, out runtime.Object, conditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, suggestion runtime.Object, _ storage.DeleteOptions) error {
	k, err := storeKey(key)
	if err != nil {
		return err
	}
	return a.attempt(k, suggestion, false, func(st state) error {
		if err := conditions.Check(k.Name, st.pod); err != nil {
			return err
		}
		if err := validate(ctx, st.pod); err != nil {
			return err
		}
		_, objs, err := a.store.Commit(ctx, store.Op{Kind: store.Delete, Key: k, Expect: st.rev})
		if err == nil {
			give(objs[0], out)
		}
		return err
	})
}

func (a *adapter) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	conditions *storage.Preconditions, try storage.UpdateFunc, suggestion runtime.Object) error {
	k, err := storeKey(key)
	if err != nil {
		return err
	}
	return a.attempt(k, suggestion, ignoreNotFound, func(st state) error {
		if err := conditions.Check(k.Name, st.pod); err != nil {
			return err
		}
		next, _, err := try(st.pod.DeepCopy(), storage.ResponseMeta{ResourceVersion: uint64(st.rev)})
		if err != nil {
			return err
		}
		pod := next.(*example.Pod).DeepCopy()
		if err := a.PrepareObjectForStorage(pod); err != nil {
			return err
		}
		op := store.Op{Kind: store.Update, Key: k, Object: keep(k, pod), Expect: st.rev}
		if st.rev == 0 {
			op.Kind = store.Create
		}
		_, objs, err := a.store.Commit(ctx, op)
		if err == nil {
			give(objs[0], out)
		}
		return err
	})
}
