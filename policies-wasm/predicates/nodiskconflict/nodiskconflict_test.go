package nodiskconflict

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	const no = "node(s) had no available disk"
	with := func(v ...policytest.Volume) policytest.Pod { return policytest.Pod{Volumes: v} }
	gce := policytest.Volume{Kind: "GCEPersistentDisk", ID: "disk"}
	read := gce
	read.ReadOnly = true
	ebs := policytest.Volume{Kind: "AWSElasticBlockStore", ID: "disk", ReadOnly: true}
	iscsi := policytest.Volume{Kind: "ISCSI", ID: "iqn"}
	rbd := policytest.Volume{Kind: "RBD", ID: "image", Pool: "pool", Monitors: []string{"m1", "m2"}}
	otherPool, otherMonitors := rbd, rbd
	otherPool.Pool, otherMonitors.Monitors = "pool2", []string{"m3"}
	policytest.Run(t, policytest.Table{
		Policy: "NoDiskConflict",
		Nodes: []policytest.Node{
			{Name: "free"}, {Name: "gce", Volumes: []policytest.Volume{read}},
			{Name: "ebs", Volumes: []policytest.Volume{ebs}}, {Name: "iscsi", Volumes: []policytest.Volume{iscsi}},
			{Name: "rbd", Volumes: []policytest.Volume{{Kind: "RBD", ID: "image", Pool: "pool", Monitors: []string{"m2"}}}},
		},
		Cases: []policytest.Case{
			{Name: "no volumes", Want: map[string]string{"gce": ""}},
			{Name: "a disk to write", Pod: with(gce), Want: map[string]string{"free": "", "gce": no, "ebs": ""}},
			{Name: "a disk that all read", Pod: with(read), Want: map[string]string{"gce": ""}},
			{Name: "EBS even to read", Pod: with(ebs), Want: map[string]string{"ebs": no, "gce": ""}},
			{Name: "iSCSI", Pod: with(iscsi), Want: map[string]string{"iscsi": no, "free": ""}},
			{Name: "RBD with a monitor in common", Pod: with(rbd), Want: map[string]string{"rbd": no}},
			{Name: "RBD of another pool", Pod: with(otherPool), Want: map[string]string{"rbd": ""}},
			{Name: "RBD of another cluster", Pod: with(otherMonitors), Want: map[string]string{"rbd": ""}},
			{
				Name: "a claim that is not there", Pod: with(policytest.Volume{Kind: "Claim", ID: "none"}),
				Want: map[string]string{"free": `persistentvolumeclaim "none" not found`},
			},
		},
	})
	policytest.Refuses(t, "NoDiskConflict", `{"some":1}`)
}
