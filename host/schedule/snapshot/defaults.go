package snapshot

import "k8s.io/apimachinery/pkg/api/resource"

var (
	defaultCPU    = *resource.NewMilliQuantity(DefaultMilliCPU, resource.DecimalSI)
	defaultMemory = *resource.NewQuantity(DefaultMemory, resource.BinarySI)
)
