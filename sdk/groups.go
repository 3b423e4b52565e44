package sdk

import "github.com/berth-dev/berth/abi"

// Groups of facts that a policy may read; see Reads.
const (
	PodRequests     = abi.PodRequests
	PodLabels       = abi.PodLabels
	PodAnnotations  = abi.PodAnnotations
	PodAffinity     = abi.PodAffinity
	PodTolerations  = abi.PodTolerations
	PodPorts        = abi.PodPorts
	PodVolumes      = abi.PodVolumes
	PodImages       = abi.PodImages
	NodeLabels      = abi.NodeLabels
	NodeTaints      = abi.NodeTaints
	NodeConditions  = abi.NodeConditions
	NodeAnnotations = abi.NodeAnnotations
	NodeCapacity    = abi.NodeCapacity
	NodeUsage       = abi.NodeUsage
	NodePorts       = abi.NodePorts
	NodeVolumes     = abi.NodeVolumes
	NodeImages      = abi.NodeImages
	Pods            = abi.Pods
	Services        = abi.Services
	Owners          = abi.Owners
	Namespaces      = abi.Namespaces
	VolumeObjects   = abi.Volumes
	Time            = abi.Time
	NodeName        = abi.NodeName
	// PodTerms is for SkipDependsOn: the placed pods that carry affinity terms.
	PodTerms = abi.PodTerms
)
