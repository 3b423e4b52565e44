package wire_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/matchinterpodaffinity"
)

// apart is a pod of an app that keeps away from pods of another.
func apart(n int, app, from string) *snapshot.Pod {
	return snapshot.NewPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint("u", n)), Namespace: "ns", Labels: map[string]string{"app": app},
		},
		Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": from}}, TopologyKey: "zone",
			}},
		}}},
	})
}

// Two guests are told the same, one of them with replicas left out.
func TestAPolicyThatTakesReplicasForAlikeAnswersTheSame(t *testing.T) {
	t.Parallel()
	const name = "MatchInterPodAffinity"
	plain, alike := open(t, name), open(t, name)
	alike.e.Begin(true)
	c, random := snapshot.New(0), rand.New(rand.NewPCG(1, 2))
	for i := range 6 {
		c.UpsertNode(zoned(fmt.Sprint("n", i), fmt.Sprint("z", i)))
	}
	// More kinds of pods than a guest keeps, the first of them more often.
	apps := []string{"a", "b", "c", "d", "e", "f", "g"}
	app := func() string { return apps[random.IntN(1+random.IntN(len(apps)))] }
	some := func(n int) *snapshot.Pod { return apart(n, app(), app()) }
	seqs, sizes, placed := [2]uint64{}, [2]int{}, []types.UID{}
	for n := range 400 {
		if n%3 == 2 && len(placed) > 3 {
			k := random.IntN(len(placed))
			c.Remove(placed[k])
			placed = append(placed[:k], placed[k+1:]...)
		} else {
			pod := some(n)
			c.Place(pod, fmt.Sprint("n", random.IntN(6)))
			placed = append(placed, pod.UID())
		}
		if random.IntN(3) == 0 {
			continue // several changes in one batch
		}
		asked, other := some(-n), some(-1000-n)
		questions := []framework.WhatIf{{Row: 1, Deltas: []snapshot.Delta{
			{Kind: snapshot.PodPlaced, Slot: 1, Groups: abi.Pods, Pod: other},
			{Kind: snapshot.PodPlaced, Slot: 1, Groups: abi.Pods, Pod: asked},
		}}}
		foresee := random.IntN(4) == 0
		var got [2][]string
		for i, g := range []*native{plain, alike} {
			deltas, _ := c.Since(seqs[i])
			batch, _ := g.e.Deltas(deltas.Whole(), g.reads)
			sizes[i] += len(batch)
			if err := g.in.Apply(batch); err != nil {
				t.Fatal(err)
			}
			g.seq, seqs[i] = c.Seq(), c.Seq()
			g.pod(asked)
			got[i] = g.filter(0, 1, 2, 3, 4, 5)
			if foresee {
				out, err := g.in.WhatIf(g.e.WhatIf(questions, g.reads))
				if err != nil {
					t.Fatal(err)
				}
				got[i] = append(got[i], g.texts(out)...)
			}
		}
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Fatalf("verdicts after %d changes (-all told +replicas left out):\n%s", n, diff)
		}
	}
	if sizes[1] >= sizes[0] {
		t.Errorf("%d bytes with replicas left out, %d without", sizes[1], sizes[0])
	}
}

// Pods of one kind bear the label of their zone once they are placed: they are told of
// by turns, and each but the first of a zone in few bytes.
func TestReplicasInSeveralZonesAreToldInFewBytes(t *testing.T) {
	t.Parallel()
	g := open(t, "MatchInterPodAffinity")
	g.e.Begin(true)
	const zones = 6
	var locator snapshot.Locator
	for n := range 4 * zones {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelTopologyZone: fmt.Sprint("z", n%zones)}}}
		pod := locator.On(node, apart(n, "a", "b"))
		batch, _ := g.e.Deltas([]snapshot.Delta{{Seq: uint64(n + 1), Kind: snapshot.PodPlaced, Groups: abi.Pods, Pod: pod}}, g.reads)
		if isNew := n < zones; isNew != (len(batch) > 96) {
			t.Errorf("pod %d was told in %d bytes, want more than 96: %v", n, len(batch), isNew)
		}
		if err := g.in.Apply(batch); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneMoreReplicaIsToldInFewBytes(t *testing.T) {
	t.Parallel()
	g := open(t, "MatchInterPodAffinity")
	g.e.Begin(true)
	placed := func(seq uint64, n int) snapshot.Delta {
		return snapshot.Delta{Seq: seq, Kind: snapshot.PodPlaced, Groups: abi.Pods, Pod: apart(n, "a", "b")}
	}
	first, _ := g.e.Deltas([]snapshot.Delta{placed(1, 1)}, g.reads)
	whole := len(first)
	second, _ := g.e.Deltas([]snapshot.Delta{placed(2, 2)}, g.reads)
	if most := 64; whole <= most || len(second) > most {
		t.Errorf("the first took %d bytes, the second %d, want one of more and one of less than %d", whole, len(second), most)
	}
	again := g.e.Pod(0, 0, apart(1, "a", "b"), g.reads)
	if whole := len(again); whole <= 64 {
		t.Errorf("the pod asked about first took %d bytes", whole)
	}
	if next := g.e.Pod(0, 0, apart(2, "a", "b"), g.reads); len(next) > 64 {
		t.Errorf("its replica took %d bytes", len(next))
	}
	g.e.Begin(true)
	if anew, _ := g.e.Deltas([]snapshot.Delta{placed(3, 3)}, g.reads); len(anew) != whole {
		t.Errorf("a new guest was sent %d bytes, want all %d", len(anew), whole)
	}
}
