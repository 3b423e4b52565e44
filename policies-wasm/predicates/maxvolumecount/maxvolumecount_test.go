package maxvolumecount

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func disksOf(kind string, n int) (list []policytest.Volume) {
	for i := range n {
		list = append(list, policytest.Volume{Kind: kind, ID: fmt.Sprintf("disk-%d", i)})
	}
	return list
}

func TestDisks(t *testing.T) {
	t.Parallel()
	const no = "node(s) exceed max volume count"
	for policy, of := range map[string]struct {
		kind, resource string
		most           int
	}{
		"MaxEBSVolumeCount":       {"AWSElasticBlockStore", "attachable-volumes-aws-ebs", 39},
		"MaxGCEPDVolumeCount":     {"GCEPersistentDisk", "attachable-volumes-gce-pd", 16},
		"MaxAzureDiskVolumeCount": {"AzureDisk", "attachable-volumes-azure-disk", 16},
	} {
		table := policytest.Table{
			Policy: policy,
			Nodes: []policytest.Node{
				{Name: "room", Volumes: disksOf(of.kind, of.most-1)},
				{Name: "full", Volumes: disksOf(of.kind, of.most)},
				{Name: "large", Volumes: disksOf(of.kind, of.most), Allocatable: map[string]string{of.resource: "100"}},
				{Name: "others", Volumes: disksOf("ISCSI", of.most)},
			},
			Cases: []policytest.Case{
				{Name: "no volumes", Want: map[string]string{"full": ""}},
				{
					Name: "one more", Pod: policytest.Pod{Volumes: []policytest.Volume{{Kind: of.kind, ID: "new"}}},
					Want: map[string]string{"room": "", "full": no, "large": "", "others": ""},
				},
				{
					Name: "one that is there already", Pod: policytest.Pod{Volumes: disksOf(of.kind, 1)},
					Want: map[string]string{"full": ""},
				},
			},
		}
		policytest.Run(t, table)
		table.Config = `{"maxVolumes":50}`
		table.Cases = table.Cases[1:2]
		table.Cases[0].Want = map[string]string{"full": ""}
		policytest.Run(t, table)
		policytest.Refuses(t, policy, `{"maxVolumes":0}`)
	}
}

func TestNewerInstancesOfAWSTakeFewer(t *testing.T) {
	t.Parallel()
	policytest.Run(t, policytest.Table{
		Policy: "MaxEBSVolumeCount",
		Nodes: []policytest.Node{
			{Name: "nitro", Labels: map[string]string{"node.kubernetes.io/instance-type": "m5.large"}, Volumes: disksOf("AWSElasticBlockStore", 25)},
			{Name: "older", Labels: map[string]string{"beta.kubernetes.io/instance-type": "m4.large"}, Volumes: disksOf("AWSElasticBlockStore", 25)},
		},
		Cases: []policytest.Case{{
			Name: "one more", Pod: policytest.Pod{Volumes: []policytest.Volume{{Kind: "AWSElasticBlockStore", ID: "new"}}},
			Want: map[string]string{"nitro": "node(s) exceed max volume count", "older": ""},
		}},
	})
}
