// Package node keeps the machine's Node object and its Lease.
//
// The Node is made at the start and brought up to date when something changed,
// and every five minutes without change; the Lease is renewed four times in its
// duration: by it the host knows that the machine lives.
package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
)

// The pace of heartbeats.
const (
	LeaseSeconds = 40
	statusEvery  = 10 * time.Second
	reportEvery  = 5 * time.Minute
)

// Keeper keeps one Node.
type Keeper struct {
	Client kubernetes.Interface
	Name   string
	// Describe gives what the Node should be now: labels, annotations, taints
	// for its creation, and the status with conditions, whose times it leaves
	// empty.
	Describe func(ctx context.Context) *v1.Node
	// Lease is how long the Lease holds, LeaseSeconds unless set.
	Lease time.Duration
	// Own are conditions that nobody else tells of: they go when Describe has them
	// no more.
	Own []v1.NodeConditionType
	Log *slog.Logger

	// reporting is held by the one report under way.
	reporting sync.Mutex
	reported  time.Time
	// renewed is when the Lease was renewed last.
	renewed atomic.Pointer[time.Time]
}

// Held tells whether the Lease has been renewed lately, and will hold for a while.
func (k *Keeper) Held() bool {
	at := k.renewed.Load()
	return at != nil && time.Since(*at) < k.lease()*3/4
}

func (k *Keeper) lease() time.Duration { return cmp.Or(max(k.Lease, 0), LeaseSeconds*time.Second) }

// Run registers and heartbeats until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	k.retry(ctx, "register the node", func(ctx context.Context) error {
		k.reporting.Lock()
		defer k.reporting.Unlock()
		return k.register(ctx)
	})
	var beat sync.WaitGroup
	beat.Go(func() { k.beat(ctx) })
	defer beat.Wait()
	status := time.NewTicker(statusEvery)
	defer status.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-status.C:
			k.warn("report the node's status", k.Report(ctx))
		}
	}
}

// beat renews the Lease beside all else: a description may have to wait for a
// runtime that does not answer, and the machine lives all the same.
func (k *Keeper) beat(ctx context.Context) {
	lease := time.NewTicker(k.lease() / 4)
	defer lease.Stop()
	for {
		at := time.Now()
		if err := k.renew(ctx); err == nil {
			k.renewed.Store(&at)
		} else {
			k.warn("renew the lease", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-lease.C:
		}
	}
}

func (k *Keeper) warn(what string, err error) {
	if err != nil {
		k.Log.Warn(what, "node", k.Name, "err", err)
	}
}

func (k *Keeper) retry(ctx context.Context, what string, f func(context.Context) error) {
	for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
		err := f(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			return
		}
		k.Log.Warn(what, "node", k.Name, "err", err, "again", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// register makes the Node, or brings the one that is there up to date; k.reporting
// is held.
func (k *Keeper) register(ctx context.Context) error {
	want := k.Describe(ctx)
	stamp(want.Status.Conditions, nil, time.Now())
	made, err := k.Client.CoreV1().Nodes().Create(ctx, want, metav1.CreateOptions{})
	if err == nil && len(made.Status.Conditions) > 0 {
		k.reported = time.Now()
		return nil
	}
	if err == nil { // the API keeps the status for its own subresource
		k.reported = time.Time{}
		return k.report(ctx)
	}
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	have, err := k.Client.CoreV1().Nodes().Get(ctx, k.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := k.relabel(ctx, have, want); err != nil {
		return err
	}
	k.reported = time.Time{}
	return k.report(ctx)
}

// relabel brings the labels that describe the machine up to date; others'
// labels stay.
func (k *Keeper) relabel(ctx context.Context, have, want *v1.Node) error {
	changed := map[string]string{}
	for name, value := range want.Labels {
		if have.Labels[name] != value {
			changed[name] = value
		}
	}
	if len(changed) == 0 && have.Spec.PodCIDR != "" || len(changed) == 0 && want.Spec.PodCIDR == "" {
		return nil
	}
	body := map[string]any{"metadata": map[string]any{"labels": changed}}
	if have.Spec.PodCIDR == "" && want.Spec.PodCIDR != "" {
		body["spec"] = map[string]any{"podCIDR": want.Spec.PodCIDR, "podCIDRs": want.Spec.PodCIDRs}
	}
	patch, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = k.Client.CoreV1().Nodes().Patch(ctx, k.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Report brings the Node's status up to date where it changed, or when it has
// not been told for a while.
func (k *Keeper) Report(ctx context.Context) error {
	k.reporting.Lock()
	defer k.reporting.Unlock()
	return k.report(ctx)
}

func (k *Keeper) report(ctx context.Context) error {
	have, err := k.Client.CoreV1().Nodes().Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return k.register(ctx) // somebody deleted it; we are still here
	}
	if err != nil {
		return err
	}
	now := time.Now()
	want := have.DeepCopy()
	want.Status = k.Describe(ctx).Status
	want.Status.Conditions = merge(have.Status.Conditions, want.Status.Conditions, k.Own)
	keepExtended(&want.Status, have.Status)
	want.Status.VolumesInUse, want.Status.VolumesAttached = have.Status.VolumesInUse, have.Status.VolumesAttached
	stamp(want.Status.Conditions, have.Status.Conditions, now)
	if now.Sub(k.reported) < reportEvery && alike(have.Status, want.Status) {
		return nil
	}
	before, err := json.Marshal(v1.Node{Status: have.Status})
	if err != nil {
		return err
	}
	after, err := json.Marshal(v1.Node{Status: want.Status})
	if err != nil {
		return err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Node{})
	if err != nil {
		return fmt.Errorf("node status: %w", err)
	}
	if _, err := k.Client.CoreV1().Nodes().Patch(ctx, k.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	k.reported = now
	return nil
}

// merge keeps conditions of others.
func merge(have, want []v1.NodeCondition, own []v1.NodeConditionType) []v1.NodeCondition {
	out := slices.Clone(want)
	for _, c := range have {
		if !slices.Contains(own, c.Type) && !slices.ContainsFunc(want, func(w v1.NodeCondition) bool { return w.Type == c.Type }) {
			out = append(out, c)
		}
	}
	return out
}

// stamp sets heartbeat and transition times.
func stamp(want, have []v1.NodeCondition, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	for i := range want {
		c := &want[i]
		if c.LastHeartbeatTime.IsZero() {
			c.LastHeartbeatTime = at
		}
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = at
		}
		for _, old := range have {
			if old.Type == c.Type && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
}

// alike compares without heartbeats, and without images, which come with the
// next change or in five minutes.
func alike(a, b v1.NodeStatus) bool {
	plain := func(s v1.NodeStatus) v1.NodeStatus {
		s.Conditions = slices.Clone(s.Conditions)
		for i := range s.Conditions {
			s.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
		s.Images = nil
		return s
	}
	return len(a.Images) == len(b.Images) && apiequality.Semantic.DeepEqual(plain(a), plain(b))
}

// renew renews the Lease, making it where there is none.
func (k *Keeper) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(k.lease()/4, time.Second))
	defer cancel()
	leases := k.Client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, k.Name, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	if absent {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: k.Name}}
	} else if err != nil {
		return err
	}
	if len(lease.OwnerReferences) == 0 {
		// Asked for each time: the Node may have been deleted and made anew since, and
		// the Lease of one that is gone is collected.
		n, err := k.Client.CoreV1().Nodes().Get(ctx, k.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: k.Name, UID: n.UID}}
	}
	seconds, now := int32(max(k.lease()/time.Second, 1)), metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &k.Name, &seconds, &now
	if absent {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

// Labels are those that each machine carries, with the operator's own.
func Labels(name string, own map[string]string) map[string]string {
	out := map[string]string{
		v1.LabelHostname: name, v1.LabelOSStable: goos, v1.LabelArchStable: goarch,
		"beta.kubernetes.io/os": goos, "beta.kubernetes.io/arch": goarch,
	}
	maps.Copy(out, own)
	return out
}
