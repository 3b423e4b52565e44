// Package maxvolumecount holds the predicates that bound how many volumes are
// attached to a node.
//
// MaxCSIVolumeCount: for each driver for which the node's CSINode states a limit,
// the volumes that its pods use and those attached to it, each once, and those
// that the pod brings, are no more than that. Volumes of EBS, GCE PD, Azure Disk,
// Cinder and Portworx count as their CSI drivers', as they are attached by those.
// A claim that is not bound counts as a volume of its class' provisioner.
// Source: kube-scheduler 1.36, plugin NodeVolumeLimits.
//
// MaxEBSVolumeCount (39; 25 on instance types that start with c5, m5 or r5 or
// hold t3 or z1d), MaxGCEPDVolumeCount (16) and MaxAzureDiskVolumeCount (16): the
// different disks of the kind that the node's pods and the pod use, by themselves
// or by claims, are no more than that. The setting maxVolumes replaces the
// number; the node's allocatable attachable-volumes-aws-ebs, -gce-pd or
// -azure-disk precedes both. A claim that is not bound, or to a volume that is
// not there, counts if its class has the kind's provisioner.
// Source: the classic scheduler (1.14). The successors of these predicates are
// the CSI drivers' limits, so they stand in no default profile.
package maxvolumecount

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/guest"
)

func init() {
	guest.Register(guest.Policy{
		Name: "MaxCSIVolumeCount", Kind: guest.KindPredicate, Scope: guest.ScopeSet,
		Description:   "The node's CSI drivers can attach the pod's volumes too.",
		Reads:         sdk.PodLabels | sdk.PodVolumes | sdk.NodeVolumes | sdk.VolumeObjects,
		SkipDependsOn: sdk.PodVolumes | sdk.VolumeObjects,
		Open:          openCSI,
	})
	for i := range kinds {
		guest.Register(guest.Policy{
			Name: kinds[i].policy, Kind: guest.KindPredicate, Scope: guest.ScopeSet, ConfigSchema: schema,
			Description: "No more than so many different " + kinds[i].what + " are on a node.",
			Reads: sdk.PodLabels | sdk.PodVolumes | sdk.NodeVolumes | sdk.NodeLabels |
				sdk.NodeCapacity | sdk.VolumeObjects,
			SkipDependsOn: sdk.PodVolumes | sdk.VolumeObjects,
			Open:          kinds[i].open,
		})
	}
}
