package wire_test

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Guests that were built long ago read these bytes: a change here breaks them,
// unless it only adds fields.
func TestRecordsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	p := pod(500, 1)
	p.Object = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u1", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"zone": "a"},
			Tolerations:  []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
			Containers:   []corev1.Container{{Name: "c", Image: "i"}},
		},
	}
	r := node(3, "node", 4000, 100)
	r.Node.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
	const reads = abi.PodGroups | abi.NodeGroups | abi.Pods
	e := wire.NewEncoder()
	records := map[string]func() []byte{
		"row":   func() []byte { b, _ := e.Deltas([]snapshot.Delta{upsert(7, r, abi.NodeGroups)}, reads); return b },
		"usage": func() []byte { b, _ := e.Deltas([]snapshot.Delta{upsert(8, r, abi.NodeUsage)}, reads); return b },
		"pod":   func() []byte { return e.Pod(8, 9, p, reads) },
		"placed": func() []byte {
			b, _ := e.Deltas([]snapshot.Delta{{Seq: 9, Kind: snapshot.PodPlaced, Slot: 3, Pod: p}}, reads)
			return b
		},
		"whatif": func() []byte {
			return e.WhatIf([]framework.WhatIf{{Row: 3, Deltas: []snapshot.Delta{upsert(0, r, abi.NodeUsage)}}}, reads)
		},
		"rows": func() []byte { return e.Rows([]int32{3, 1 << 20}) },
		"gate": func() []byte {
			return e.Gate(5, []wire.GatePod{{Pod: p.Object, Condition: "c", Observed: []wire.Observation{{Name: "o", OK: true}}}}, 0)
		},
	}
	for name, encode := range records {
		got := lines(encode())
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is\n%swant\n%s", name, got, want)
		}
	}
}

// lines is hex, 32 bytes a line.
func lines(b []byte) string {
	var s strings.Builder
	for part := range slices.Chunk(b, 32) {
		s.WriteString(hex.EncodeToString(part) + "\n")
	}
	return s.String()
}
