package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"
)

func TestClaimsGrowWhereTheirClassLetsThem(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, class := range map[string]*storagev1.StorageClass{
		"grows":  {Provisioner: "csi.example.test", AllowVolumeExpansion: ptr.To(true)},
		"stays":  {Provisioner: "csi.example.test", AllowVolumeExpansion: ptr.To(false)},
		"silent": {Provisioner: "csi.example.test"},
		"folder": {Provisioner: "berth.dev/hostpath", AllowVolumeExpansion: ptr.To(true)},
	} {
		class.Name = name
		c.create(t, view.StorageClasses, "", class)
	}
	const unsupported = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
	tests := map[string]struct {
		class     string
		annotated bool
		phase     corev1.PersistentVolumeClaimPhase
		size      string
		forbidden string
		invalid   string
	}{
		"a class that lets them":           {class: "grows", size: "2Gi"},
		"one of the old annotation":        {class: "grows", annotated: true, size: "2Gi"},
		"a class that does not":            {class: "stays", size: "2Gi", forbidden: unsupported},
		"a class that says nothing":        {class: "silent", size: "2Gi", forbidden: unsupported},
		"a class that is not there":        {class: "gone", size: "2Gi", forbidden: unsupported},
		"no class":                         {size: "2Gi", forbidden: unsupported},
		"folders, which nothing resizes":   {class: "folder", size: "2Gi", forbidden: "nothing resizes volumes of berth.dev/hostpath"},
		"no growth":                        {class: "stays", size: "1024Mi"},
		"a claim that shrinks":             {class: "grows", size: "512Mi", invalid: "field can not be less than status.capacity"},
		"a claim that grows when it waits": {class: "grows", phase: corev1.ClaimPending, size: "2Gi", invalid: "spec is immutable after creation except resources.requests"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &test.class,
					Resources: corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
				},
			}
			if test.annotated {
				claim.Annotations, claim.Spec.StorageClassName = map[string]string{corev1.BetaStorageClassAnnotation: test.class}, nil
			}
			claim = c.create(t, "persistentvolumeclaims", "dev", claim).DeepCopyObject().(*corev1.PersistentVolumeClaim)
			if test.phase == "" {
				claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, storage("1Gi")
			}
			at := registry.On("persistentvolumeclaims", "dev", claim.Name)
			bound, _, err := c.Update(t.Context(), at.Sub("status"), claim)
			if err != nil {
				t.Fatal(err)
			}
			larger := bound.DeepCopyObject().(*corev1.PersistentVolumeClaim)
			larger.Spec.Resources.Requests = storage(test.size)
			_, _, err = c.Update(t.Context(), at, larger)
			switch {
			case test.forbidden != "":
				refused(t, err, test.forbidden)
			case test.invalid != "":
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.invalid) {
					t.Errorf("error = %v, want invalid with %q", err, test.invalid)
				}
			case err != nil:
				t.Error(err)
			}
		})
	}
}

func TestTheAttributesOfABoundVolumeStay(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const why = "nothing changes the attributes of volumes"
	for name, test := range map[string]struct {
		had, wants *string
		forbidden  bool
	}{
		"others":             {ptr.To("fast"), ptr.To("slow"), true},
		"the first":          {nil, ptr.To("fast"), true},
		"none any more":      {ptr.To("fast"), nil, true},
		"the same":           {ptr.To("fast"), ptr.To("fast"), false},
		"none, said clearer": {nil, ptr.To(""), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := c.create(t, "persistentvolumeclaims", "dev", &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("made"),
					Resources: corev1.VolumeResourceRequirements{Requests: storage("1Gi")}, VolumeAttributesClassName: test.had,
				},
			}).DeepCopyObject().(*corev1.PersistentVolumeClaim)
			claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, storage("1Gi")
			at := registry.On("persistentvolumeclaims", "dev", claim.Name)
			bound, _, err := c.Update(t.Context(), at.Sub("status"), claim)
			if err != nil {
				t.Fatal(err)
			}
			other := bound.DeepCopyObject().(*corev1.PersistentVolumeClaim)
			other.Spec.VolumeAttributesClassName, other.Labels = test.wants, map[string]string{"touched": "yes"}
			if _, _, err = c.Update(t.Context(), at, other); test.forbidden {
				refused(t, err, why)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}
