package invent

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	driver    = "disk.example.com"
	ebsDriver = "ebs.csi.aws.com"
	selected  = "volume.kubernetes.io/selected-node"
	completed = "pv.kubernetes.io/bind-completed"
)

var classes = []string{"made", "local", "now", "zoned", ""}

// storage are classes, drivers, what is left of them, and free volumes.
func (i *inventor) storage() {
	if i.often["claim"] == 0 {
		return
	}
	wait, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	class := func(name, provisioner string, mode storagev1.VolumeBindingMode) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
	}
	zoned := class("zoned", one(i, driver, ebsDriver), wait)
	for n := 1 + i.IntN(2); n > 0; n-- {
		term := v1.TopologySelectorTerm{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
			{Key: v1.LabelTopologyZone, Values: some(i, 2, "z1", "z2", "z3")},
		}}
		if i.chance(0.3) {
			term.MatchLabelExpressions = append(term.MatchLabelExpressions, v1.TopologySelectorLabelRequirement{Key: "disk", Values: []string{"ssd"}})
		}
		zoned.AllowedTopologies = append(zoned.AllowedTopologies, term)
	}
	i.c.Classes = []storagev1.StorageClass{
		class("made", driver, wait), class("local", "kubernetes.io/no-provisioner", wait), class("now", driver, now), zoned,
	}
	i.c.CSIDrivers = []storagev1.CSIDriver{{
		ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(i.chance(0.5))},
	}}
	i.capacities()
	for n := i.IntN(6); n > 0; n-- {
		i.volume(v1.VolumeAvailable, nil)
	}
	for n := range i.c.Nodes {
		i.csiNode(i.c.Nodes[n].Name)
	}
}

func (i *inventor) capacities() {
	for n := i.IntN(5); n > 0; n-- {
		c := storagev1.CSIStorageCapacity{
			ObjectMeta: i.meta("grey", fmt.Sprintf("left%d", n)), StorageClassName: one(i, "made", "zoned"),
			Capacity:     ptr.To(amount(i, "0", "1Gi", "100Gi")),
			NodeTopology: one(i, nil, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: one(i, "z1", "z2")}}),
		}
		if i.chance(0.3) {
			c.MaximumVolumeSize = ptr.To(amount(i, "1Gi", "50Gi"))
		}
		i.c.Capacities = append(i.c.Capacities, c)
	}
}

func (i *inventor) csiNode(name string) {
	if i.chance(0.3) {
		return
	}
	node := storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("csi-" + name)}}
	for _, d := range []string{driver, ebsDriver} {
		if i.chance(0.3) {
			continue
		}
		one := storagev1.CSINodeDriver{Name: d, NodeID: name}
		if i.chance(0.8) {
			one.Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To(int32(i.IntN(4)))}
		}
		node.Spec.Drivers = append(node.Spec.Drivers, one)
	}
	if i.chance(0.5) {
		node.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}
	}
	i.c.CSINodes = append(i.c.CSINodes, node)
	if i.chance(0.15) {
		i.c.Attachments = append(i.c.Attachments, storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "at-" + name},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: driver, NodeName: name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To(one(i, "pv-0", "pv-1", "gone"))},
			},
			Status: storagev1.VolumeAttachmentStatus{Attached: true},
		})
	}
}

// volume makes up a persistent volume, for a claim or for nobody yet.
func (i *inventor) volume(phase v1.PersistentVolumePhase, claim *v1.PersistentVolumeClaim) string {
	name := fmt.Sprintf("pv-%d", len(i.c.Volumes))
	pv := v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}}}
	pv.Spec = v1.PersistentVolumeSpec{
		Capacity:    v1.ResourceList{v1.ResourceStorage: amount(i, "1Gi", "5Gi", "10Gi", "10G")},
		AccessModes: some(i, 2, v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany), StorageClassName: one(i, "local", "local", "made", ""),
		VolumeMode: ptr.To(one(i, v1.PersistentVolumeFilesystem, v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock)),
	}
	pv.Spec.PersistentVolumeSource = one(i,
		v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h-" + name}},
		v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h-shared"}},
		v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: one(i, "vol-1", "aws://z1/vol-2")}},
		v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/x"}},
		v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/x"}})
	// Drivers that stand in for a kind of old bring topology keys of their own,
	// which are left out here: see docs/compatibility.md.
	migrated := pv.Spec.AWSElasticBlockStore != nil
	if !migrated && (i.chance(0.5) || pv.Spec.Local != nil) {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{i.volumeTerm()}}}
	}
	if !migrated && i.chance(0.4) {
		pv.Labels[one(i, v1.LabelTopologyZone, v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone, v1.LabelTopologyRegion)] = one(i, "z1", "z2", "z1__z2", "r1", "z1__", " z1__z3")
	}
	pv.Labels["tier"] = one(i, "gold", "tin")
	pv.Status.Phase = phase
	if claim != nil {
		pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	}
	if i.chance(0.05) {
		pv.Spec.VolumeAttributesClassName = ptr.To("quick")
	}
	if i.chance(0.05) {
		pv.DeletionTimestamp = &metav1.Time{Time: epoch}
	}
	i.c.Volumes = append(i.c.Volumes, pv)
	return name
}

func (i *inventor) volumeTerm() v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{one(i,
		v1.NodeSelectorRequirement{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: some(i, 2, "z1", "z2", "z3")},
		v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{i.nodeName()}},
		v1.NodeSelectorRequirement{Key: "disk", Operator: v1.NodeSelectorOpNotIn, Values: []string{"hdd"}})}}
}

// claim makes up a claim in one of its states and returns its name.
func (i *inventor) claim(namespace string) string {
	i.claims++
	claim := v1.PersistentVolumeClaim{ObjectMeta: i.meta(namespace, fmt.Sprintf("claim%d", i.claims))}
	claim.Spec = v1.PersistentVolumeClaimSpec{
		AccessModes:      some(i, 2, v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany),
		StorageClassName: ptr.To(one(i, classes...)), VolumeMode: ptr.To(v1.PersistentVolumeFilesystem),
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: amount(i, "1Gi", "2Gi", "9Gi")}},
	}
	if i.chance(0.15) {
		claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	if i.chance(0.1) {
		claim.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	}
	if i.chance(0.2) {
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	}
	if i.chance(0.05) {
		claim.Spec.VolumeAttributesClassName = ptr.To("quick")
	}
	i.state(&claim)
	i.c.Claims = append(i.c.Claims, claim)
	return claim.Name
}

// state binds the claim, sets a volume or a node aside for it, or loses it.
func (i *inventor) state(claim *v1.PersistentVolumeClaim) {
	claim.Status.Phase = v1.ClaimPending
	switch n := i.IntN(20); {
	case n < 10:
		claim.Spec.VolumeName, claim.Status.Phase = i.volume(v1.VolumeBound, claim), v1.ClaimBound
		claim.Annotations = map[string]string{completed: "yes"}
		if i.chance(0.05) {
			claim.Spec.VolumeName = "gone"
		}
	case n == 10:
		claim.Spec.VolumeName = i.volume(v1.VolumeAvailable, nil)
	case n == 11:
		i.volume(v1.VolumeAvailable, claim)
	case n == 12:
		claim.Annotations = map[string]string{selected: one(i, i.nodeName(), "gone")}
	case n == 13:
		claim.Status.Phase = v1.ClaimLost
	case n == 14:
		claim.DeletionTimestamp = &metav1.Time{Time: epoch}
	case n == 15:
		claim.Spec.StorageClassName = ptr.To("none")
	}
}

// volumes gives the pod disks of its own kinds, and claims.
func (i *inventor) volumes(p *v1.Pod) {
	add := func(s v1.VolumeSource) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprintf("v%d", len(p.Spec.Volumes)), VolumeSource: s})
	}
	for i.has("volume") && len(p.Spec.Volumes) < 3 {
		add(i.disk())
	}
	for i.has("claim") && len(p.Spec.Volumes) < 4 {
		switch {
		case i.chance(0.05):
			add(claimed("missing"))
		case i.chance(0.15):
			i.ephemeral(p, fmt.Sprintf("v%d", len(p.Spec.Volumes)))
			add(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: template}})
		default:
			add(claimed(i.shared(p.Namespace)))
		}
	}
}

// template is of a claim of an ephemeral volume.
var template = &v1.PersistentVolumeClaimTemplate{Spec: v1.PersistentVolumeClaimSpec{
	AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
	Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
}}

func claimed(name string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// shared is a claim that others may use too.
func (i *inventor) shared(namespace string) string {
	for n := range i.c.Claims {
		if c := &i.c.Claims[n]; c.Namespace == namespace && len(c.OwnerReferences) == 0 && i.chance(0.3) {
			return c.Name
		}
	}
	return i.claim(namespace)
}

// ephemeral makes the claim of an ephemeral volume, if it is made yet; it may
// turn out to be somebody else's.
func (i *inventor) ephemeral(p *v1.Pod, volume string) {
	if i.chance(0.1) {
		return
	}
	i.claim(p.Namespace)
	claim := &i.c.Claims[len(i.c.Claims)-1]
	claim.Name = p.Name + "-" + volume
	for n := range i.c.Volumes {
		if ref := i.c.Volumes[n].Spec.ClaimRef; ref != nil && ref.UID == claim.UID {
			ref.Name = claim.Name
		}
	}
	// Of a placed pod whose claim is another's, kube-scheduler makes an error of
	// the whole cycle.
	if strings.HasPrefix(p.Name, "p") || i.chance(0.9) {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}}
	}
}

func (i *inventor) disk() v1.VolumeSource {
	read := i.chance(0.5)
	return one(i,
		v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: one(i, "d1", "d2"), ReadOnly: read}},
		v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: one(i, "vol-1", "vol-3"), ReadOnly: read}},
		v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{TargetPortal: one(i, "a", "b"), IQN: one(i, "iqn.2020-01.com.example:one", "iqn.2020-01.com.example:two"), Lun: int32(i.IntN(2)), ReadOnly: read}},
		v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: some(i, 2, "m1", "m2", "m3"), RBDImage: one(i, "im1", "im2"), RBDPool: one(i, "rbd", "p2"), ReadOnly: read}},
		v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}},
		v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
		v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: one(i, "data:v2", "registry:5000/big:v1")}})
}
