package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// parent is the name of what a play makes.
const parent = "web"

func selector() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: app(parent)} }

func deployment(name string, n int) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To(int32(n)), Selector: &metav1.LabelSelector{MatchLabels: app(name)}, Template: template(name)},
	}
}

// took is how long it takes from do until is, in seconds.
func took(ctx context.Context, do func() error, is func() (bool, error)) (float64, error) {
	began := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	err := until(ctx, is)
	return time.Since(began).Seconds(), err
}

func playDeployment(ctx context.Context, c *cast, ns string, n int) (float64, error) {
	all := c.client.AppsV1().Deployments(ns)
	return took(ctx, func() error {
		_, err := all.Create(ctx, deployment(parent, n), metav1.CreateOptions{})
		return err
	}, func() (bool, error) {
		d, err := all.Get(ctx, parent, metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == int32(n), err
	})
}

// playRollout changes the template of a Deployment whose pods are ready.
func playRollout(ctx context.Context, c *cast, ns string, n int) (float64, error) {
	if _, err := playDeployment(ctx, c, ns, n); err != nil {
		return 0, err
	}
	all := c.client.AppsV1().Deployments(ns)
	const patch = `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"registry.example/app:2"}]}}}}`
	return took(ctx, func() error {
		_, err := all.Patch(ctx, parent, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}, func() (bool, error) {
		d, err := all.Get(ctx, parent, metav1.GetOptions{})
		s := &d.Status
		return err == nil && s.ObservedGeneration == d.Generation && s.UpdatedReplicas == int32(n) && s.ReadyReplicas == int32(n) && s.Replicas == int32(n), err
	})
}

func playJob(ctx context.Context, c *cast, ns string, n int) (float64, error) {
	t := template(parent)
	t.Spec.RestartPolicy = v1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: parent}, Spec: batchv1.JobSpec{
		Completions: ptr.To(int32(n)), Parallelism: ptr.To(int32(min(n, 1_000))), CompletionMode: ptr.To(batchv1.IndexedCompletion), Template: t,
	}}
	all := c.client.BatchV1().Jobs(ns)
	return took(ctx, func() error {
		_, err := all.Create(ctx, job, metav1.CreateOptions{})
		return err
	}, func() (bool, error) {
		j, err := all.Get(ctx, parent, metav1.GetOptions{})
		return err == nil && j.Status.CompletionTime != nil, err
	})
}

func playParallel(ctx context.Context, c *cast, ns string, n int) (float64, error) {
	return playStatefulSet(ctx, c, ns, n, appsv1.ParallelPodManagement)
}

func playOrdered(ctx context.Context, c *cast, ns string, n int) (float64, error) {
	return playStatefulSet(ctx, c, ns, n, appsv1.OrderedReadyPodManagement)
}

func playStatefulSet(ctx context.Context, c *cast, ns string, n int, policy appsv1.PodManagementPolicyType) (float64, error) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: parent}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To(int32(n)), Selector: selector(), Template: template(parent), PodManagementPolicy: policy,
	}}
	all := c.client.AppsV1().StatefulSets(ns)
	return took(ctx, func() error {
		_, err := all.Create(ctx, set, metav1.CreateOptions{})
		return err
	}, func() (bool, error) {
		s, err := all.Get(ctx, parent, metav1.GetOptions{})
		return err == nil && s.Status.ReadyReplicas == int32(n), err
	})
}

// playDaemons runs one pod on each of n nodes.
func playDaemons(ctx context.Context, c *cast, ns string, n int) (float64, error) {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: parent}, Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: template(parent)}}
	if n == 1 {
		set.Spec.Template.Spec.NodeSelector = map[string]string{v1.LabelHostname: "sim-0"}
	}
	all := c.client.AppsV1().DaemonSets(ns)
	return took(ctx, func() error {
		_, err := all.Create(ctx, set, metav1.CreateOptions{})
		return err
	}, func() (bool, error) {
		s, err := all.Get(ctx, parent, metav1.GetOptions{})
		return err == nil && s.Status.NumberReady == int32(n), err
	})
}

// playIdle makes n Deployments of one pod, and compares what all processes use
// when nothing happens with what they used without them.
func playIdle(ctx context.Context, c *cast, ns string, n int) (float64, error) {
	if n == 1 {
		return playDeployment(ctx, c, ns, n)
	}
	before, err := c.busy(ctx)
	if err != nil {
		return 0, err
	}
	err = each(ctx, 32, n, func(ctx context.Context, i int) error {
		_, err := c.client.AppsV1().Deployments(ns).Create(ctx, deployment(fmt.Sprintf("d%d", i), 1), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return 0, err
	}
	err = until(ctx, func() (bool, error) {
		list, err := c.client.AppsV1().Deployments(ns).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if list.Items[i].Status.ReadyReplicas != 1 {
				return false, pause(ctx, time.Second)
			}
		}
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, 5*time.Second); err != nil { // until all has come to rest
		return 0, err
	}
	settle()
	// The store may still compact what was written: the middle of three tells.
	var after [3]float64
	for i := range after {
		if after[i], err = c.busy(ctx); err != nil {
			return 0, err
		}
	}
	slices.Sort(after[:])
	return max(after[1]-before, 0), nil
}

// largeSets is how many Deployments have all pods of playLarge.
const largeSets = 8

// playLarge is how much CPU a pod takes of all processes, from the request until
// it is ready, in a few Deployments of thousands.
func playLarge(ctx context.Context, c *cast, ns string, n int) (float64, error) {
	each := max(n/largeSets, 1)
	return c.cpuEach(n, func() error {
		all := c.client.AppsV1().Deployments(ns)
		made := min(n, largeSets)
		for i := range made {
			if _, err := all.Create(ctx, deployment(fmt.Sprintf("d%d", i), each), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return until(ctx, func() (bool, error) {
			list, err := all.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return false, err
			}
			ready := 0
			for i := range list.Items {
				ready += int(list.Items[i].Status.ReadyReplicas)
			}
			return ready >= made*each, pause(ctx, 100*time.Millisecond)
		})
	})
}

// playBare is the same of pods that nothing controls.
func playBare(ctx context.Context, c *cast, ns string, n int) (float64, error) {
	return c.cpuEach(n, func() error {
		pods := c.client.CoreV1().Pods(ns)
		err := each(ctx, 32, n, func(ctx context.Context, i int) error {
			t := template(parent)
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), Labels: t.Labels}, Spec: t.Spec}
			_, err := pods.Create(ctx, p, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		watch, err := pods.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		defer watch.Stop()
		ready := map[types.UID]bool{}
		for len(ready) < n {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case e := <-watch.ResultChan():
				if p, ok := e.Object.(*v1.Pod); ok && isReady(p) {
					ready[p.UID] = true
				}
			}
		}
		return nil
	})
}

// cpuEach is how much CPU do takes for each of n, in milliseconds.
func (c *cast) cpuEach(n int, do func() error) (float64, error) {
	settle()
	before := use().cpu + c.managerCPU()
	err := do()
	return millis(use().cpu+c.managerCPU()-before) / float64(n), err
}

// busy is what share of a core, in percent, is used for a while.
func (c *cast) busy(ctx context.Context) (float64, error) {
	used := func() time.Duration { return use().cpu + c.managerCPU() }
	began, before := time.Now(), used()
	if err := pause(ctx, restFor); err != nil {
		return 0, err
	}
	return 100 * float64(used()-before) / float64(time.Since(began)), nil
}

// managerCPU is what kube-controller-manager has used.
func (c *cast) managerCPU() time.Duration {
	if c.manager == nil {
		return 0
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.manager.Pid))
	if err != nil {
		return 0
	}
	// The fields after the name, which stands in parentheses.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // ticks
}
