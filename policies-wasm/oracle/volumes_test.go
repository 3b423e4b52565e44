package oracle

import "testing"

// zones is a cluster of two zones and a node that is in none.
const zones = `
nodes:
- metadata: {name: a, labels: {topology.kubernetes.io/zone: z1, disk: ssd}}
- metadata: {name: b, labels: {topology.kubernetes.io/zone: z2}}
- metadata: {name: none}
`

// claims are in all states; the volumes are local ones, in zones.
const claims = zones + `
storageclasses:
- {metadata: {name: local}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
- {metadata: {name: now}, provisioner: disk.example.com, volumeBindingMode: Immediate}
- {metadata: {name: made}, provisioner: disk.example.com, volumeBindingMode: WaitForFirstConsumer}
- metadata: {name: zoned}
  provisioner: other.example.com
  volumeBindingMode: WaitForFirstConsumer
  allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [z2]}]}]
csidrivers:
- {metadata: {name: disk.example.com}, spec: {storageCapacity: true}}
csistoragecapacities:
- {metadata: {name: z1, namespace: ns}, storageClassName: made, capacity: 1Gi, nodeTopology: {matchLabels: {topology.kubernetes.io/zone: z1}}}
- {metadata: {name: z2, namespace: ns}, storageClassName: made, capacity: 100Gi, maximumVolumeSize: 2Gi, nodeTopology: {matchLabels: {topology.kubernetes.io/zone: z2}}}
pvs:
- metadata: {name: bound, labels: {topology.kubernetes.io/zone: z1}}
  spec: &z1 {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], storageClassName: local, volumeMode: Filesystem,
    nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z1]}]}]}}}
  status: {phase: Bound}
- metadata: {name: free}
  spec: *z1
  status: {phase: Available}
- metadata: {name: going, deletionTimestamp: "2024-01-01T00:00:00Z"}
  spec: {capacity: {storage: 50Gi}, accessModes: [ReadWriteOnce], storageClassName: local, volumeMode: Filesystem}
  status: {phase: Available}
- metadata: {name: quick}
  spec: {capacity: {storage: 50Gi}, accessModes: [ReadWriteOnce], storageClassName: local, volumeMode: Filesystem, volumeAttributesClassName: quick}
  status: {phase: Available}
- metadata: {name: aside}
  spec: {capacity: {storage: 50Gi}, accessModes: [ReadWriteOnce], storageClassName: local, volumeMode: Filesystem, claimRef: {namespace: ns, name: aside}}
  status: {phase: Available}
- metadata: {name: astray}
  spec: {capacity: {storage: 50Gi}, accessModes: [ReadWriteOnce], storageClassName: made, volumeMode: Filesystem, claimRef: {namespace: ns, name: astray}}
  status: {phase: Available}
- metadata: {name: both, labels: {failure-domain.beta.kubernetes.io/zone: z1__z2, topology.kubernetes.io/region: r1}}
  spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], storageClassName: ""}
  status: {phase: Bound}
pvcs:
- metadata: {name: bound, namespace: ns, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
  spec: {accessModes: [ReadWriteOnce], storageClassName: local, volumeName: bound, resources: {requests: {storage: 1Gi}}}
  status: {phase: Bound}
- metadata: {name: both, namespace: ns, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
  spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: both, resources: {requests: {storage: 1Gi}}}
  status: {phase: Bound}
- metadata: {name: dangling, namespace: ns, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
  spec: {accessModes: [ReadWriteOnce], storageClassName: local, volumeName: gone, resources: {requests: {storage: 1Gi}}}
  status: {phase: Bound}
- {metadata: {name: small, namespace: ns}, spec: &small {accessModes: [ReadWriteOnce], storageClassName: local, volumeMode: Filesystem, resources: {requests: {storage: 1Gi}}}}
- {metadata: {name: second, namespace: ns}, spec: *small}
- {metadata: {name: aside, namespace: ns}, spec: *small}
- {metadata: {name: astray, namespace: ns}, spec: *small}
- {metadata: {name: large, namespace: ns}, spec: {accessModes: [ReadWriteOnce], storageClassName: local, volumeMode: Filesystem, resources: {requests: {storage: 9Gi}}}}
- {metadata: {name: shared, namespace: ns}, spec: {accessModes: [ReadWriteMany], storageClassName: local, volumeMode: Filesystem, resources: {requests: {storage: 1Gi}}}}
- {metadata: {name: now, namespace: ns}, spec: {accessModes: [ReadWriteOnce], storageClassName: now, resources: {requests: {storage: 1Gi}}}}
- {metadata: {name: classless, namespace: ns}, spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}}
- {metadata: {name: made, namespace: ns}, spec: {accessModes: [ReadWriteOnce], storageClassName: made, resources: {requests: {storage: 2Gi}}}}
- {metadata: {name: zoned, namespace: ns}, spec: {accessModes: [ReadWriteOnce], storageClassName: zoned, resources: {requests: {storage: 2Gi}}}}
- metadata: {name: selected, namespace: ns, annotations: {volume.kubernetes.io/selected-node: b}}
  spec: {accessModes: [ReadWriteOnce], storageClassName: zoned, resources: {requests: {storage: 2Gi}}}
- {metadata: {name: lost, namespace: ns}, spec: *small, status: {phase: Lost}}
- {metadata: {name: going, namespace: ns, deletionTimestamp: "2024-01-01T00:00:00Z"}, spec: *small}
`

// with is the spec of a pod that uses claims.
func with(claims ...string) string {
	spec := "{volumes: ["
	for _, c := range claims {
		spec += "{name: " + c + ", persistentVolumeClaim: {claimName: " + c + "}},"
	}
	return spec + "]}"
}

// on says the same of several nodes.
func on(reason string, nodes ...string) map[string]string {
	all := map[string]string{}
	for _, n := range nodes {
		all[n] = reason
	}
	return all
}

func TestVolumesAreBound(t *testing.T) {
	t.Parallel()
	const conflict, found = "node(s) didn't match PersistentVolume's node affinity", "node(s) didn't find available persistent volumes to bind"
	everywhere := func(reason string) map[string]string { return on(reason, "a", "b", "none") }
	table := objects{policies: []string{"CheckVolumeBinding", "NoVolumeNodeConflict"}, cluster: claims, cases: []objectCase{
		{name: "no claims", pod: "{}", want: everywhere("")},
		{name: "a bound volume", pod: with("bound"), want: map[string]string{"a": "", "b": conflict, "none": conflict}},
		{name: "a bound volume that is not there", pod: with("dangling"), want: everywhere("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")},
		{name: "a claim that waits and a volume that fits", pod: with("small"), want: map[string]string{"a": "", "b": found, "none": found}},
		{name: "two claims and one volume", pod: with("small", "second"), want: everywhere(found)},
		{name: "a claim too large, beside volumes that go or are of another kind", pod: with("large"), want: everywhere(found)},
		{name: "a volume without the access mode", pod: with("shared"), want: everywhere(found)},
		{name: "a volume set aside", pod: with("aside"), want: everywhere("")},
		{name: "a volume set aside, of another class", pod: with("astray"), want: map[string]string{"a": "", "b": found, "none": found}},
		{name: "a claim that waits for nothing", pod: with("now"), want: everywhere("pod has unbound immediate PersistentVolumeClaims")},
		{name: "a class that is not there", pod: with("classless"), want: everywhere(`storageclass.storage.k8s.io "none" not found`)},
		{name: "room for a volume to be made", pod: with("made"), want: map[string]string{
			"a": "node(s) did not have enough free storage", "b": "", "none": "node(s) did not have enough free storage",
		}},
		{name: "topologies of the class", pod: with("zoned"), want: map[string]string{"a": found, "b": "", "none": found}},
		{name: "a node was selected", pod: with("selected"), want: map[string]string{"a": found, "b": "", "none": found}},
		{name: "a lost claim", pod: with("lost"), want: everywhere(`persistentvolumeclaim "lost" bound to non-existent persistentvolume ""`)},
		{name: "a claim that goes", pod: with("going"), want: everywhere(`persistentvolumeclaim "going" is being deleted`)},
		{name: "a claim that is not there", pod: with("nowhere"), want: everywhere(`persistentvolumeclaim "nowhere" not found`)},
	}}
	table.run(t)
}

func TestVolumesStayInTheirZone(t *testing.T) {
	t.Parallel()
	const no = "node(s) had no available volume zone"
	table := objects{policies: []string{"NoVolumeZoneConflict"}, cluster: claims, cases: []objectCase{
		{name: "no claims", pod: "{}", want: on("", "a", "b", "none")},
		{name: "one zone; a node in none is admitted", pod: with("bound"), want: map[string]string{"a": "", "b": no, "none": ""}},
		{name: "a list of zones, and a region that nodes lack", pod: with("both"), want: map[string]string{"a": no, "b": no, "none": ""}},
		{name: "a claim that waits", pod: with("small"), want: on("", "a", "b", "none")},
		{name: "a claim that waits for nothing", pod: with("now"), want: on("PersistentVolume had no name", "a")},
		{name: "a volume that is not there", pod: with("dangling"), want: on(`persistentvolume "gone" not found`, "a")},
		{name: "a class that is not there", pod: with("classless"), want: on(`storageclass.storage.k8s.io "none" not found`, "a")},
		{name: "a claim that is not there", pod: with("nowhere"), want: on(`persistentvolumeclaim "nowhere" not found`, "a")},
	}}
	table.run(t)
}

// attached is nodes whose driver takes two volumes, and what is on them.
const attached = `
nodes: [{metadata: {name: full}}, {metadata: {name: half}}, {metadata: {name: attaching}}, {metadata: {name: unlimited}}]
csinodes:
- {metadata: {name: full}, spec: {drivers: [{name: d, nodeID: x, allocatable: {count: 2}}]}}
- {metadata: {name: half}, spec: {drivers: [{name: d, nodeID: x, allocatable: {count: 2}}]}}
- {metadata: {name: attaching}, spec: {drivers: [{name: d, nodeID: x, allocatable: {count: 2}}]}}
- {metadata: {name: unlimited}, spec: {drivers: [{name: d, nodeID: x}]}}
storageclasses:
- {metadata: {name: made}, provisioner: d, volumeBindingMode: WaitForFirstConsumer}
pvs:
- {metadata: {name: v1}, spec: {csi: {driver: d, volumeHandle: h1}}}
- {metadata: {name: v2}, spec: {csi: {driver: d, volumeHandle: h2}}}
- {metadata: {name: v3}, spec: {csi: {driver: d, volumeHandle: h3}}}
- {metadata: {name: other}, spec: {csi: {driver: e, volumeHandle: h1}}}
volumeattachments:
- {metadata: {name: t1}, spec: {attacher: d, nodeName: attaching, source: {persistentVolumeName: v1}}}
- {metadata: {name: t2}, spec: {attacher: d, nodeName: attaching, source: {persistentVolumeName: v2}}}
pvcs:
- {metadata: {name: c1, namespace: ns}, spec: {volumeName: v1}}
- {metadata: {name: c2, namespace: ns}, spec: {volumeName: v2}}
- {metadata: {name: c3, namespace: ns}, spec: {volumeName: v3}}
- {metadata: {name: other, namespace: ns}, spec: {volumeName: other}}
- {metadata: {name: new, namespace: ns}, spec: {storageClassName: made}}
pods:
- {metadata: {name: p1, namespace: ns, uid: p1}, spec: {nodeName: full, volumes: [{name: v, persistentVolumeClaim: {claimName: c1}}, {name: w, persistentVolumeClaim: {claimName: c2}}]}}
- {metadata: {name: p2, namespace: ns, uid: p2}, spec: {nodeName: half, volumes: [{name: v, persistentVolumeClaim: {claimName: c1}}]}}
- {metadata: {name: p3, namespace: ns, uid: p3}, spec: {nodeName: unlimited, volumes: [{name: v, persistentVolumeClaim: {claimName: c1}}, {name: w, persistentVolumeClaim: {claimName: c2}}]}}
`

func TestDriversAttachSoMany(t *testing.T) {
	t.Parallel()
	const no = "node(s) exceed max volume count"
	table := objects{policies: []string{"MaxCSIVolumeCount"}, cluster: attached, cases: []objectCase{
		{name: "no claims", pod: "{}", want: on("", "full", "half", "attaching", "unlimited")},
		{name: "one more", pod: with("c3"), want: map[string]string{"full": no, "half": "", "attaching": no, "unlimited": ""}},
		{name: "one that a pod there uses; of one that is but attached kube-scheduler takes no notice",
			pod: with("c1"), want: map[string]string{"full": "", "half": "", "attaching": no, "unlimited": ""}},
		{name: "two more", pod: with("c2", "c3"), want: map[string]string{"full": no, "half": no, "attaching": no, "unlimited": ""}},
		{name: "one that is yet to be made", pod: with("new"), want: map[string]string{"full": no, "half": "", "unlimited": ""}},
		{name: "another driver's", pod: with("other"), want: on("", "full", "half", "attaching", "unlimited")},
	}}
	table.run(t)
}
