package oracle

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/oracletest"
)

// objects is a table about policies that look at more of a cluster than
// sdk/policytest can say: its objects are whole, as kubectl would take them.
type objects struct {
	policies []string
	config   string
	// cluster is a case in YAML, without the pod that is asked about.
	cluster string
	cases   []objectCase
}

type objectCase struct {
	name string
	// pod is its spec in YAML.
	pod string
	// want are reasons by node, "" where it is admitted; scores are raw.
	want   map[string]string
	scores map[string]int64
}

// run asks natively, by TinyGo's guests and by stock Go's.
func (o *objects) run(t *testing.T) {
	t.Helper()
	preferred, err := preferred()
	if err != nil {
		t.Fatal(err)
	}
	stock, err := stock()
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []struct {
		name string
		open opener
	}{{"native", openNative}, {"TinyGo", preferred.open}, {"stock Go", stock.open}} {
		for _, policy := range o.policies {
			for _, c := range o.cases {
				t.Run(by.name+"/"+policy+"/"+c.name, func(t *testing.T) { o.ask(t, by.open, policy, c) })
			}
		}
	}
}

// read makes a case of the table's YAML. Objects are in the namespace ns.
func (o *objects) read(t *testing.T, pod string) *oracletest.Case {
	t.Helper()
	c := &oracletest.Case{}
	for what, text := range map[any]string{c: o.cluster, &c.Pending: "metadata: {name: asked, namespace: ns, uid: asked}\nspec: " + pod} {
		data, err := yaml.YAMLToJSONStrict([]byte(text))
		if err == nil {
			err = json.Unmarshal(data, what)
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	return c
}

func (o *objects) ask(t *testing.T, open opener, policy string, c objectCase) {
	all := o.read(t, c.pod)
	cluster := all.Cluster()
	g := open.over(t, policy, o.config, cluster)
	defer g.speaker.close()
	answer := g.pod(all.Pending)
	reasons, scores := map[string]string{}, map[string]int64{}
	for node := range c.want {
		slot, _ := cluster.Slot(node)
		reasons[node] = g.filter(answer, []int32{slot})[0].Text
	}
	for node := range c.scores {
		slot, _ := cluster.Slot(node)
		scores[node] = 0
		if answer.Ask == abi.AskRows {
			scores[node] = g.score([]int32{slot})[0]
		}
	}
	if diff := cmp.Diff(c.want, reasons); c.want != nil && diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(c.scores, scores); c.scores != nil && diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}
