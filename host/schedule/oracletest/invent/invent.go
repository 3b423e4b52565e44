package invent

import (
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/schedule/oracletest"
)

// asked is how many pods a case asks about.
const asked = 3

// inventor makes up one case.
//
// It is large because each part of a Pod or Node that a rule reads is made up
// by a method of its own, from one seed.
type inventor struct {
	*rand.Rand
	c *oracletest.Case
	// often is how likely each feature is in this case.
	often  map[string]float64
	claims int
}

// features are what a case has more or less of.
var features = [...]string{
	"taint", "unschedulable", "nodeaffinity", "selector", "podaffinity", "spread", "volume", "claim", "port", "image",
	"scalar", "tight", "odd", "init", "overhead", "podlevel", "resize", "nodename", "terminating", "nominated", "owner",
}

// Case makes up the case of a seed.
func Case(seed uint64) *oracletest.Case {
	i := &inventor{
		Rand: rand.New(rand.NewPCG(seed, 0x6265727468)), c: &oracletest.Case{Name: fmt.Sprintf("invented-%d", seed)},
		often: map[string]float64{},
	}
	for _, f := range features {
		i.often[f] = one(i, 0, 0, 0.05, 0.2, 0.5)
	}
	i.namespaces()
	for n := 3 + i.IntN(10); len(i.c.Nodes) < n; {
		i.c.Nodes = append(i.c.Nodes, i.node(len(i.c.Nodes)))
	}
	i.owners()
	i.storage()
	for n := i.IntN(30); len(i.c.Pods) < n; {
		i.c.Pods = append(i.c.Pods, *i.placed(len(i.c.Pods)))
	}
	i.c.Pending = i.pending(0)
	for n := 1; n < asked; n++ {
		i.c.PendingMore = append(i.c.PendingMore, *i.pending(n))
	}
	return i.c
}

// has says whether a feature is to be used here.
func (i *inventor) has(feature string) bool { return i.Float64() < i.often[feature] }

// chance is true with a likelihood.
func (i *inventor) chance(p float64) bool { return i.Float64() < p }

// one picks one of several.
func one[T any](i *inventor, of ...T) T { return of[i.IntN(len(of))] }

// some picks up to most of several, each at most once.
func some[T any](i *inventor, most int, of ...T) []T {
	i.Shuffle(len(of), func(a, b int) { of[a], of[b] = of[b], of[a] })
	return of[:min(1+i.IntN(most), len(of))]
}

var spaces = []string{"red", "blue", "grey"}

func (i *inventor) namespaces() {
	for _, name := range spaces {
		labels := map[string]string{"kubernetes.io/metadata.name": name}
		if i.chance(0.7) {
			labels["team"] = one(i, "x", "y")
		}
		i.c.Namespaces = append(i.c.Namespaces, v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}})
	}
}

// nodeName names a node of the case.
func (i *inventor) nodeName() string { return i.c.Nodes[i.IntN(len(i.c.Nodes))].Name }

// epoch is when everything happened.
var epoch = time.Unix(1_700_000_000, 0).UTC()
