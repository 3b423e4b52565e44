package oracle

import (
	"fmt"
	"testing"
)

func TestHostPorts(t *testing.T) {
	t.Parallel()
	const no = "node(s) didn't have free ports for the requested pod ports"
	port := func(of string) string { return "{containers: [{name: c, ports: [{containerPort: 80, " + of + "}]}]}" }
	table := objects{policies: []string{"PodFitsHostPorts", "PodFitsPorts"}, cluster: `
nodes: [{metadata: {name: all}}, {metadata: {name: local}}, {metadata: {name: side}}, {metadata: {name: free}}]
pods:
- {metadata: {name: p, namespace: ns, uid: p}, spec: {nodeName: all, containers: [{name: c, ports: [{hostPort: 80}]}]}}
- {metadata: {name: q, namespace: ns, uid: q}, spec: {nodeName: local, containers: [{name: c, ports: [{hostPort: 80, hostIP: 127.0.0.1, protocol: TCP}]}]}}
- {metadata: {name: r, namespace: ns, uid: r}, spec: {nodeName: side, initContainers: [{name: s, restartPolicy: Always, ports: [{hostPort: 80}]}], containers: [{name: c}]}}
`, cases: []objectCase{
		{name: "no port", pod: port("hostPort: 0"), want: on("", "all", "local", "free")},
		{name: "on all addresses", pod: port("hostPort: 80"), want: map[string]string{"all": no, "local": no, "side": no, "free": ""}},
		{name: "on another address", pod: port("hostPort: 80, hostIP: 10.0.0.1"), want: map[string]string{"all": no, "local": "", "free": ""}},
		{name: "on the same address", pod: port("hostPort: 80, hostIP: 127.0.0.1"), want: map[string]string{"all": no, "local": no, "free": ""}},
		{name: "by another protocol", pod: port("hostPort: 80, protocol: UDP"), want: on("", "all", "local", "free")},
		{name: "another port", pod: port("hostPort: 81"), want: on("", "all", "local", "free")},
	}}
	table.run(t)
}

// labelled are nodes for terms of node affinity.
const labelled = `
nodes:
- {metadata: {name: a, labels: {zone: z1, gen: "10"}}}
- {metadata: {name: b, labels: {zone: z2, gen: nine}}}
- {metadata: {name: bare}}
`

func TestNodeAffinity(t *testing.T) {
	t.Parallel()
	const no = "node(s) didn't match Pod's node affinity/selector"
	terms := func(of string) string {
		return "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" + of + "]}}}}"
	}
	one := func(of string) string { return terms("{matchExpressions: [{" + of + "}]}") }
	table := objects{policies: []string{"MatchNodeSelector"}, cluster: labelled, cases: []objectCase{
		{name: "nothing asked", pod: "{}", want: on("", "a", "b", "bare")},
		{name: "a selector", pod: "{nodeSelector: {zone: z1}}", want: map[string]string{"a": "", "b": no, "bare": no}},
		{name: "In", pod: one("key: zone, operator: In, values: [z1, z3]"), want: map[string]string{"a": "", "b": no, "bare": no}},
		{name: "NotIn takes nodes without the label", pod: one("key: zone, operator: NotIn, values: [z1]"), want: map[string]string{"a": no, "b": "", "bare": ""}},
		{name: "Exists", pod: one("key: zone, operator: Exists"), want: map[string]string{"a": "", "b": "", "bare": no}},
		{name: "DoesNotExist", pod: one("key: zone, operator: DoesNotExist"), want: map[string]string{"a": no, "b": no, "bare": ""}},
		{name: "Gt reads numbers", pod: one("key: gen, operator: Gt, values: ['9']"), want: map[string]string{"a": "", "b": no, "bare": no}},
		{name: "Lt is no Le", pod: one("key: gen, operator: Lt, values: ['10']"), want: on(no, "a", "b", "bare")},
		{name: "a bound that is no number matches nothing", pod: one("key: gen, operator: Gt, values: [ten]"), want: on(no, "a", "b", "bare")},
		{name: "matchFields", pod: terms("{matchFields: [{key: metadata.name, operator: In, values: [b]}]}"), want: map[string]string{"a": no, "b": "", "bare": no}},
		{name: "an empty term matches nothing", pod: terms("{}"), want: on(no, "a", "b", "bare")},
		{name: "one term of several is enough", pod: terms("{}, {matchExpressions: [{key: zone, operator: In, values: [z2]}]}"), want: map[string]string{"a": no, "b": "", "bare": no}},
		{name: "all expressions of a term", pod: terms("{matchExpressions: [{key: zone, operator: Exists}, {key: gen, operator: In, values: [nine]}]}"), want: map[string]string{"a": no, "b": ""}},
	}}
	table.run(t)
}

func TestNodePreferences(t *testing.T) {
	t.Parallel()
	prefer := func(of ...string) string {
		list := ""
		for i, term := range of {
			list += fmt.Sprintf("{weight: %d, preference: {%s}},", 10*(i+1), term)
		}
		return "{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [" + list + "]}}}"
	}
	table := objects{policies: []string{"NodeAffinityPriority"}, cluster: labelled, cases: []objectCase{
		{name: "nothing preferred", pod: "{}", scores: map[string]int64{"a": 0, "bare": 0}},
		{name: "weights are summed", pod: prefer("matchExpressions: [{key: zone, operator: Exists}]", "matchExpressions: [{key: zone, operator: In, values: [z1]}]"),
			scores: map[string]int64{"a": 30, "b": 10, "bare": 0}},
		{name: "an empty term is worth nothing", pod: prefer("", "matchFields: [{key: metadata.name, operator: In, values: [bare]}]"),
			scores: map[string]int64{"a": 0, "b": 0, "bare": 20}},
	}}
	table.run(t)
}
