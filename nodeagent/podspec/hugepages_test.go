package podspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// pages is a list of huge pages: "2Mi=4Mi 1Gi=2Gi".
func pages(text string) v1.ResourceRequirements {
	list := v1.ResourceList{}
	for one := range strings.FieldsSeq(text) {
		size, amount, _ := strings.Cut(one, "=")
		list[v1.ResourceName("hugepages-"+size)] = resource.MustParse(amount)
	}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

func TestHugepages(t *testing.T) {
	t.Parallel()
	sizes := []int64{2 << 20, 1 << 30}
	for _, tt := range []struct {
		name           string
		pod, init, app string
		container, all map[string]int64
	}{
		{"none are asked for", "", "", "", map[string]int64{"2MB": 0, "1GB": 0}, map[string]int64{"2MB": 0, "1GB": 0}},
		{"a container's", "", "2Mi=8Mi", "2Mi=4Mi 1Gi=2Gi", map[string]int64{"2MB": 4 << 20, "1GB": 2 << 30}, map[string]int64{"2MB": 8 << 20, "1GB": 2 << 30}},
		{"the pod's", "2Mi=6Mi", "", "", map[string]int64{"2MB": 6 << 20, "1GB": 0}, map[string]int64{"2MB": 6 << 20, "1GB": 0}},
		{"the container's before the pod's", "2Mi=6Mi", "", "2Mi=2Mi", map[string]int64{"2MB": 2 << 20, "1GB": 0}, map[string]int64{"2MB": 6 << 20, "1GB": 0}},
		{"a size that the machine lacks", "", "", "64Ki=64Ki", map[string]int64{"2MB": 0, "1GB": 0}, map[string]int64{"2MB": 0, "1GB": 0}},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "init", Resources: pages(tt.init)}},
			Containers:     []v1.Container{{Name: "app", Resources: pages(tt.app)}},
		}}
		if tt.pod != "" {
			res := pages(tt.pod)
			p.Spec.Resources = &res
		}
		if diff := cmp.Diff(tt.container, ContainerHugepages(p, &p.Spec.Containers[0], sizes)); diff != "" {
			t.Errorf("%s, of the container: %s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.all, PodHugepages(p, sizes)); diff != "" {
			t.Errorf("%s, of the pod: %s", tt.name, diff)
		}
	}
	if got := ContainerHugepages(&v1.Pod{}, &v1.Container{}, nil); got != nil {
		t.Errorf("on a machine without huge pages: %v", got)
	}
}

func TestMediumPageSize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		medium, asks string
		want         int64
		err          string
	}{
		{"HugePages", "2Mi=4Mi", 2 << 20, ""},
		{"HugePages-2Mi", "2Mi=4Mi 1Gi=1Gi", 2 << 20, ""},
		{"HugePages-1Gi", "2Mi=4Mi 1Gi=1Gi", 1 << 30, ""},
		{"HugePages", "2Mi=4Mi 1Gi=1Gi", 0, "medium: HugePages can't be used if container requests multiple huge page sizes"},
		{"HugePages", "", 0, "medium HugePages: hugePages storage requested, but there is no resource request for huge pages"},
		{"HugePages-1Gi", "2Mi=4Mi", 0, "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages"},
		{"HugePages-x", "2Mi=4Mi", 0, "medium HugePages-x names no size of a page"},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: pages(tt.asks)}}}}
		got, err := MediumPageSize(p, v1.StorageMedium(tt.medium))
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("MediumPageSize(%s, %s) = %d, %v; want %d, %s", tt.medium, tt.asks, got, err, tt.want, tt.err)
		}
	}
}
