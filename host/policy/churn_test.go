package policy_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// churnRounds is how often all pods are replaced by others; the campaign says more.
func churnRounds() int {
	if n, err := strconv.Atoi(os.Getenv("BERTH_CHURN_ROUNDS")); err == nil {
		return n
	}
	return 60
}

// Pods whose names and labels nobody has heard of come and go, on a cluster that
// stays small: no policy ever fails for what is gone.
func TestPoliciesOutliveTheStringsThatTheyWereTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const nodes, pods = 40, 400
	for i := range nodes {
		r.cluster.UpsertNode(clustertest.Node(fmt.Sprint("n", i), "64", "256Gi", 1000, func(n *v1.Node) {
			n.Labels = map[string]string{v1.LabelHostname: n.Name, v1.LabelTopologyZone: fmt.Sprint("z", i%3)}
		}))
	}
	for round := range churnRounds() {
		var there []*v1.Pod
		for i := range pods {
			pod := churned(round, i)
			there = append(there, pod)
			if i%20 == 0 {
				r.decide(t, pod)
				continue
			}
			r.cluster.Place(snapshot.NewPod(pod), fmt.Sprint("n", i%nodes))
		}
		for r.Rest(t.Context()) {
		}
		for _, pod := range there {
			r.cluster.Remove(pod.UID)
		}
		for _, f := range r.Figures() {
			if f.Failures > 0 {
				t.Fatalf("after %d rounds %s has failed: %s", round+1, f.Name, f.LastFailure)
			}
		}
	}
}

// churned is a pod of names and labels of its own.
func churned(round, i int) *v1.Pod {
	app := fmt.Sprintf("app-of-round-%d-and-pod-%d", round, i)
	return clustertest.Pod(fmt.Sprintf("pod-%d-%d", round, i), "10m", "1Mi", func(p *v1.Pod) {
		p.Namespace, p.Labels = "default", map[string]string{"app": app, fmt.Sprintf("label-%d-%d", round, i): "yes"}
		if i%4 != 0 {
			return
		}
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector,
		}}
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname, LabelSelector: selector}},
		}}
	})
}

// Ten thousand placed pods of as many labels, each of a ReplicaSet of its own, are
// what a cluster of a thousand nodes gives reason for: no policy fails for them,
// whatever it has to tidy up.
func TestPoliciesBearPodsThatAllDiffer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const nodes, pods = 1000, 10_000
	for i := range nodes {
		r.cluster.UpsertNode(clustertest.Node(fmt.Sprint("n", i), "64", "256Gi", 1000, func(n *v1.Node) {
			n.Labels = map[string]string{v1.LabelHostname: n.Name, v1.LabelTopologyZone: fmt.Sprint("z", i%3)}
		}))
	}
	for i := range pods {
		labels := map[string]string{"app": fmt.Sprint("app-", i), "pod-template-hash": fmt.Sprintf("%010d", i)}
		set := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("set-", i), Namespace: "default", Labels: labels},
			Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
		}
		r.cluster.UpsertObject("replicasets.apps", set)
		pod := clustertest.Pod(fmt.Sprint("pod-", i), "10m", "1Mi", func(p *v1.Pod) {
			p.Namespace, p.Labels = "default", labels
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		})
		if i%4 == 0 {
			r.decide(t, pod)
		} else {
			r.cluster.Place(snapshot.NewPod(pod), fmt.Sprint("n", i%nodes))
		}
		if i%500 == 0 {
			for r.Rest(t.Context()) {
			}
		}
	}
	for _, f := range r.Figures() {
		if f.Failures > 0 {
			t.Errorf("%s has failed: %s", f.Name, f.LastFailure)
		}
	}
}

// The pods of an indexed Job have labels in common and one of their own each. They all
// end: no policy fails for that.
func TestPoliciesBearTheEndOfALargeJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const nodes, pods = 1000, 10_000
	for i := range nodes {
		r.cluster.UpsertNode(clustertest.Node(fmt.Sprint("n", i), "64", "256Gi", 1000, func(*v1.Node) {}))
	}
	indexed := func(i int) *v1.Pod {
		return clustertest.Pod(fmt.Sprint("pod-", i), "10m", "1Mi", func(p *v1.Pod) {
			p.Namespace, p.Labels = "default", map[string]string{
				"job-name": "large", batchv1.JobNameLabel: "large", "controller-uid": "1", batchv1.ControllerUidLabel: "1",
				batchv1.JobCompletionIndexAnnotation: strconv.Itoa(i),
			}
		})
	}
	for i := range pods {
		r.cluster.Place(snapshot.NewPod(indexed(i)), fmt.Sprint("n", i%nodes))
		if i%1000 == 0 {
			r.decide(t, indexed(pods+i))
		}
	}
	for i := range pods {
		r.cluster.Remove(indexed(i).UID)
		if i%1000 == 999 {
			r.decide(t, indexed(2*pods+i))
		}
	}
	for _, f := range r.Figures() {
		if f.Failures > 0 {
			t.Errorf("%s has failed: %s", f.Name, f.LastFailure)
		}
	}
}
