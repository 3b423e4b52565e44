package volumes

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

func play(t *testing.T, test func(w *controllertest.World)) {
	t.Helper()
	controllertest.Play(t, []string{"PersistentVolumeClaim", "PersistentVolume"}, test)
}

func claimOf(name, class, size string, change ...func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: &class, VolumeMode: ptr.To(v1.PersistentVolumeFilesystem),
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func volumeOf(name, class, size string, change ...func(*v1.PersistentVolume)) *v1.PersistentVolume {
	v := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}, StorageClassName: class, VolumeMode: ptr.To(v1.PersistentVolumeFilesystem),
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data/" + name}},
		},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

// tune gives a volume a class of attributes, which those of CSI drivers have.
func tune(v *v1.PersistentVolume) {
	v.Spec.VolumeAttributesClassName = ptr.To("fast")
	v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "csi.example.test", VolumeHandle: v.Name}}
}

func local(v *v1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/srv"}}
}

func class(w *controllertest.World, name, provisioner string, mode storagev1.VolumeBindingMode, annotations map[string]string, change ...func(*storagev1.StorageClass)) {
	policy := v1.PersistentVolumeReclaimRetain
	if name == "deleting" {
		policy = v1.PersistentVolumeReclaimDelete
	}
	c := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Provisioner: provisioner, VolumeBindingMode: &mode,
		ReclaimPolicy: &policy, Parameters: map[string]string{"path": "/srv"},
	}
	for _, f := range change {
		f(c)
	}
	w.Create("storageclasses.storage.k8s.io", c)
}

// shown are claims and volumes in short.
func shown(w *controllertest.World) (out []string) {
	for _, c := range controllertest.List[*v1.PersistentVolumeClaim](w, "persistentvolumeclaims") {
		size := c.Status.Capacity[v1.ResourceStorage]
		out = append(out, strings.TrimSpace(c.Name+" "+string(c.Status.Phase)+" "+strings.TrimPrefix(c.Spec.VolumeName, "pvc-"+string(c.UID))+" "+size.String()))
	}
	for _, v := range controllertest.ListAll[*v1.PersistentVolume](w, "persistentvolumes") {
		of := ""
		if v.Spec.ClaimRef != nil {
			of = v.Spec.ClaimRef.Name
		}
		name, _, _ := strings.Cut(v.Name, "-")
		out = append(out, strings.TrimSpace(name+" "+string(v.Status.Phase)+" "+of))
	}
	return out
}

func want(t *testing.T, w *controllertest.World, what string, lines ...string) {
	t.Helper()
	w.Wait(time.Minute)
	if diff := cmp.Diff(lines, shown(w)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func told(t *testing.T, w *controllertest.World, event string) {
	t.Helper()
	if events := w.Events(); !slices.Contains(events, event) {
		t.Errorf("no event %q, but\n%s", event, strings.Join(events, "\n"))
	}
}

func TestAClaimGetsTheSmallestVolumeThatFits(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("persistentvolumes", volumeOf("small", "", "1Gi"))
		w.Create("persistentvolumes", volumeOf("large", "", "10Gi"))
		w.Create("persistentvolumes", volumeOf("middle", "", "5Gi"))
		w.Create("persistentvolumes", volumeOf("other", "gold", "2Gi"))
		w.Create("persistentvolumes", volumeOf("block", "", "2Gi", func(v *v1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock) }))
		w.Create("persistentvolumes", volumeOf("tuned", "", "2Gi", tune))
		w.Create("persistentvolumeclaims", claimOf("a", "", "2Gi"))
		want(t, w, "bound", "a Bound middle 5Gi", "block Available", "large Available", "middle Bound a", "other Available", "small Available", "tuned Available")
		c := controllertest.Get[*v1.PersistentVolumeClaim](w, "persistentvolumeclaims", "a")
		if c.Annotations[bindCompleted] != "yes" || c.Annotations[boundByController] != "yes" || len(c.Status.AccessModes) != 2 {
			t.Errorf("the claim is %+v %+v", c.Annotations, c.Status)
		}
		w.Create("persistentvolumeclaims", claimOf("many", "", "1Gi", func(c *v1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		}))
		w.Wait(time.Second)
		told(t, w, "many Normal FailedBinding: no persistent volumes available for this claim and no storage class is set")
		w.Delete("persistentvolumeclaims", "many", nil)
		w.Delete("persistentvolumeclaims", "a", nil)
		w.Create("persistentvolumeclaims", claimOf("b", "", "1Gi", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("fast") }))
		want(t, w, "released", "b Bound tuned 2Gi", "block Available", "large Available", "middle Released a", "other Available", "small Available", "tuned Bound b")
	})
}

// TestTheOldAnnotationOfAClassComesFirst, before the field, as to the scheduler and to
// Kubernetes: of claims and of volumes.
func TestTheOldAnnotationOfAClassComesFirst(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		class(w, "usual", "csi.example.test", storagev1.VolumeBindingImmediate, map[string]string{isDefault: "true"})
		gold := map[string]string{oldClass: "gold"}
		w.Create("persistentvolumes", volumeOf("said", "", "2Gi", func(v *v1.PersistentVolume) { v.Annotations = gold }))
		w.Create("persistentvolumes", volumeOf("field", "gold", "5Gi"))
		w.Create("persistentvolumes", volumeOf("none", "gold", "1Gi", func(v *v1.PersistentVolume) { v.Annotations = map[string]string{oldClass: ""} }))
		w.Create("persistentvolumeclaims", claimOf("a", "silver", "1Gi", func(c *v1.PersistentVolumeClaim) { c.Annotations = gold }))
		w.Create("persistentvolumeclaims", claimOf("b", "", "1Gi", func(c *v1.PersistentVolumeClaim) {
			c.Annotations, c.Spec.StorageClassName, c.Spec.VolumeName = gold, nil, "field"
		}))
		w.Create("persistentvolumeclaims", claimOf("c", "", "1Gi"))
		want(t, w, "by their annotations", "a Bound said 2Gi", "b Bound field 5Gi", "c Bound none 1Gi", "field Bound b", "none Bound c", "said Bound a")
	})
}

func TestAVolumeThatComesLaterIsTaken(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("persistentvolumeclaims", claimOf("a", "", "2Gi", func(c *v1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
		}))
		w.Create("persistentvolumes", volumeOf("slow", "", "5Gi"))
		want(t, w, "without one", "a Pending  0", "slow Available")
		w.Create("persistentvolumes", volumeOf("fast", "", "5Gi", func(v *v1.PersistentVolume) { v.Labels = map[string]string{"disk": "fast"} }))
		want(t, w, "with one", "a Bound fast 5Gi", "fast Bound a", "slow Available")
	})
}

func TestAVolumeThatNamesAClaimIsKeptForIt(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("persistentvolumes", volumeOf("kept", "", "5Gi", func(v *v1.PersistentVolume) {
			v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "b"}
		}))
		w.Create("persistentvolumeclaims", claimOf("a", "", "2Gi"))
		want(t, w, "for another", "a Pending  0", "kept Available b")
		w.Create("persistentvolumeclaims", claimOf("b", "", "2Gi", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "kept" }))
		want(t, w, "for the one", "a Pending  0", "b Bound kept 5Gi", "kept Bound b")
	})
}

func TestAClaimGetsNoVolumeThatItNamesAndDoesNotWant(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(*v1.PersistentVolume){
		`the volume is marked for deletion "named"`: func(*v1.PersistentVolume) {},
		"requested PV is too small":                 func(v *v1.PersistentVolume) { v.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("1Gi") },
		"storageClassName does not match":           func(v *v1.PersistentVolume) { v.Spec.StorageClassName = "gold" },
		"volumeAttributesClassName does not match":  tune,
		"incompatible volumeMode":                   func(v *v1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock) },
		"incompatible accessMode": func(v *v1.PersistentVolume) {
			v.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
		},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *controllertest.World) {
				w.Create("persistentvolumes", volumeOf("named", "", "5Gi", change, func(v *v1.PersistentVolume) { v.Finalizers = []string{"a/b"} }))
				if strings.Contains(why, "deletion") {
					w.Delete("persistentvolumes", "named", nil)
				}
				w.Create("persistentvolumeclaims", claimOf("a", "", "2Gi", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "named" }))
				w.Wait(time.Second)
				told(t, w, `a Warning VolumeMismatch: Cannot bind to requested volume "named": `+why)
				c := controllertest.Get[*v1.PersistentVolumeClaim](w, "persistentvolumeclaims", "a")
				v := controllertest.ListAll[*v1.PersistentVolume](w, "persistentvolumes")[0]
				if c.Status.Phase != v1.ClaimPending || v.Spec.ClaimRef != nil {
					t.Errorf("the claim is %s, the volume is of %v", c.Status.Phase, v.Spec.ClaimRef)
				}
			})
		})
	}
}

// Whoever has both name each other gets what he says, as in Kubernetes.
func TestAVolumeThatNamesTheClaimThatNamesItIsBound(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("persistentvolumes", volumeOf("named", "gold", "1Gi", func(v *v1.PersistentVolume) {
			v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "a"}
		}))
		w.Create("persistentvolumeclaims", claimOf("a", "", "2Gi", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "named" }))
		want(t, w, "bound", "a Bound named 1Gi", "named Bound a")
	})
}

func TestAClaimWhoseVolumeIsGoneIsLost(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("persistentvolumes", volumeOf("one", "", "5Gi"))
		w.Create("persistentvolumeclaims", claimOf("a", "", "2Gi"))
		want(t, w, "bound", "a Bound one 5Gi", "one Bound a")
		w.DeleteAt("persistentvolumes", "", "one", nil)
		controllertest.Change(w, "persistentvolumes", "", "one", func(v *v1.PersistentVolume) { v.Finalizers = nil })
		w.Wait(time.Second)
		told(t, w, "a Warning ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!")
		want(t, w, "lost", "a Lost one 0")
	})
}

// Both the claim that had the volume and the one that has it now are looked at.
func TestAClaimWhoseVolumeIsGivenToAnotherIsLost(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("persistentvolumes", volumeOf("v", "", "5Gi"))
		w.Create("persistentvolumeclaims", claimOf("a", "", "2Gi"))
		want(t, w, "bound", "a Bound v 5Gi", "v Bound a")
		b := w.Create("persistentvolumeclaims", claimOf("b", "", "2Gi"))
		w.Wait(time.Minute)
		_, err := w.Store.Update(w.T.Context(), store.Key{Resource: "persistentvolumes", Name: "v"}, func(o store.Object) (store.Object, error) {
			next := o.(*v1.PersistentVolume).DeepCopy()
			next.Spec.ClaimRef.Name, next.Spec.ClaimRef.UID = b.GetName(), b.GetUID()
			return next, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want(t, w, "given away", "a Lost v 0", "b Bound v 5Gi", "v Bound b")
	})
}

func TestAVolumeIsMadeWhereItsPodGoes(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		class(w, "standard", Provisioner, storagev1.VolumeBindingWaitForFirstConsumer, map[string]string{isDefault: "true"})
		w.Create("persistentvolumeclaims", claimOf("a", "", "2Gi", func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }))
		w.Wait(time.Second)
		told(t, w, "a Normal WaitForFirstConsumer: waiting for first consumer to be created before binding")
		controllertest.Change(w, "persistentvolumeclaims", "", "a", func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{selectedNode: "n1"}
		})
		want(t, w, "made", "a Bound  2Gi", "pvc Bound a")
		v := controllertest.ListAll[*v1.PersistentVolume](w, "persistentvolumes")[0]
		c := controllertest.Get[*v1.PersistentVolumeClaim](w, "persistentvolumeclaims", "a")
		if v.Spec.HostPath.Path != "/srv/pvc-"+string(c.UID) || *v.Spec.HostPath.Type != v1.HostPathDirectoryOrCreate || v.Spec.ClaimRef.UID != c.UID ||
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "n1" || v.Spec.StorageClassName != "standard" || *c.Spec.StorageClassName != "standard" {
			t.Errorf("the volume is %+v of %+v", v.Spec, c.Spec)
		}
		told(t, w, "a Normal ProvisioningSucceeded: Successfully provisioned volume "+v.Name+" using berth.dev/hostpath")
		w.Delete("persistentvolumeclaims", "a", nil)
		want(t, w, "released", "pvc Released a")
	})
}

// A claim that is bound to a volume that was refused would be lost.
func TestAClaimIsBoundOnceItsVolumeIsThere(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		class(w, "standard", Provisioner, storagev1.VolumeBindingWaitForFirstConsumer, nil)
		w.Refuse("persistentvolumes", "exceeded quota")
		w.Create("persistentvolumeclaims", claimOf("a", "standard", "2Gi", func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{selectedNode: "n1"}
		}))
		want(t, w, "refused", "a Pending  0")
		events := strings.Join(w.Events(), "\n")
		if strings.Contains(events, "ProvisioningSucceeded") || !strings.Contains(events, "a Warning ProvisioningFailed: Error creating: ") {
			t.Errorf("events %s", events)
		}
		w.Refuse("persistentvolumes", "")
		w.Wait(time.Hour)
		want(t, w, "made", "a Bound  2Gi", "pvc Bound a")
		if n := strings.Count(strings.Join(w.Events(), "\n"), "ProvisioningSucceeded"); n != 1 {
			t.Errorf("told %d times that it is made, want once", n)
		}
	})
}

// Provisioners of CSI drivers name theirs so, too.
func TestAVolumeThatAnotherProvisionerMadeIsNotToldOf(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		class(w, "foreign", "csi.example.test", storagev1.VolumeBindingImmediate, nil)
		a := w.Create("persistentvolumeclaims", claimOf("a", "foreign", "2Gi"))
		w.Create("persistentvolumes", volumeOf("pvc-"+string(a.GetUID()), "foreign", "2Gi", func(v *v1.PersistentVolume) {
			v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "a", UID: a.GetUID()}
			v.Annotations = map[string]string{provisionedBy: "csi.example.test"}
		}))
		want(t, w, "bound", "a Bound  2Gi", "pvc Bound a")
		if events := strings.Join(w.Events(), "\n"); strings.Contains(events, "ProvisioningSucceeded") {
			t.Errorf("events %s", events)
		}
	})
}

func TestWhatIsNotMadeIsToldOf(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		class(w, "at-once", Provisioner, storagev1.VolumeBindingImmediate, nil)
		class(w, "deleting", Provisioner, storagev1.VolumeBindingWaitForFirstConsumer, nil)
		class(w, "foreign", "csi.example.test", storagev1.VolumeBindingImmediate, nil)
		for name, event := range map[string]string{
			"at-once":  "a Warning ProvisioningFailed: berth.dev/hostpath makes a volume on the node of the pod: give StorageClass at-once volumeBindingMode WaitForFirstConsumer",
			"deleting": "a Warning ProvisioningFailed: berth.dev/hostpath keeps what was written: give StorageClass deleting reclaimPolicy Retain",
			"foreign":  "a Normal ExternalProvisioning: Waiting for a volume to be created either by the external provisioner 'csi.example.test' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
			"none":     `a Warning ProvisioningFailed: storageclass.storage.k8s.io "none" not found`,
		} {
			w.Create("persistentvolumeclaims", claimOf("a", name, "2Gi", func(c *v1.PersistentVolumeClaim) {
				if name == "deleting" {
					c.Annotations = map[string]string{selectedNode: "n1"}
				}
			}))
			w.Wait(time.Second)
			told(t, w, event)
			w.Delete("persistentvolumeclaims", "a", nil)
			w.Wait(time.Second)
		}
	})
}

// An empty folder in place of what was asked for would be taken for it.
func TestWhatAFolderCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	snapshot := v1.TypedLocalObjectReference{APIGroup: ptr.To("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: "s"}
	for name, test := range map[string]struct {
		claim func(*v1.PersistentVolumeClaimSpec)
		class func(*storagev1.StorageClass)
		why   string
	}{
		"a block device": {
			claim: func(s *v1.PersistentVolumeClaimSpec) { s.VolumeMode = ptr.To(v1.PersistentVolumeBlock) },
			why:   "berth.dev/hostpath makes folders, no block devices: ask for volumeMode Filesystem",
		},
		"a snapshot": {
			claim: func(s *v1.PersistentVolumeClaimSpec) { s.DataSource = &snapshot },
			why:   "berth.dev/hostpath makes empty volumes, and fills none from spec.dataSource",
		},
		"what a populator fills": {
			claim: func(s *v1.PersistentVolumeClaimSpec) {
				s.DataSourceRef = &v1.TypedObjectReference{APIGroup: ptr.To("example.test"), Kind: "Archive", Name: "a"}
			},
			why: "berth.dev/hostpath makes empty volumes, and fills none from spec.dataSource",
		},
		"a selector": {
			claim: func(s *v1.PersistentVolumeClaimSpec) {
				s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
			},
			why: "claim.Spec.Selector is not supported for dynamic provisioning: label a volume that it selects, or leave it out",
		},
		"attributes": {
			claim: func(s *v1.PersistentVolumeClaimSpec) { s.VolumeAttributesClassName = ptr.To("fast") },
			why:   "berth.dev/hostpath knows no volume attributes: leave spec.volumeAttributesClassName out",
		},
		"options of mount": {
			class: func(c *storagev1.StorageClass) { c.MountOptions = []string{"noexec"} },
			why:   "berth.dev/hostpath makes folders, which are not mounted: StorageClass standard may have no mountOptions",
		},
		"a parameter that is not read": {
			class: func(c *storagev1.StorageClass) { c.Parameters["size"] = "5Gi" },
			why:   "berth.dev/hostpath knows one parameter, path: StorageClass standard may not have size",
		},
		"a path that goes back": {
			class: func(c *storagev1.StorageClass) { c.Parameters["path"] = "/srv/../etc" },
			why:   "berth.dev/hostpath makes no folder by a path with ..: StorageClass standard has the path /srv/../etc",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *controllertest.World) {
				class(w, "standard", Provisioner, storagev1.VolumeBindingWaitForFirstConsumer, nil, func(c *storagev1.StorageClass) {
					if test.class != nil {
						test.class(c)
					}
				})
				w.Create("persistentvolumeclaims", claimOf("a", "standard", "2Gi", func(c *v1.PersistentVolumeClaim) {
					c.Annotations = map[string]string{selectedNode: "n1"}
					if test.claim != nil {
						test.claim(&c.Spec)
					}
				}))
				want(t, w, "refused", "a Pending  0")
				told(t, w, "a Warning ProvisioningFailed: "+test.why)
			})
		})
	}
}

// Nobody deletes or empties a volume here.
func TestAReleasedVolumeSaysWhatBecomesOfIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy v1.PersistentVolumeReclaimPolicy
		phase  v1.PersistentVolumePhase
		change func(*v1.PersistentVolume)
		why    []string
		status string
		events []string
	}{
		"one that is kept": {policy: v1.PersistentVolumeReclaimRetain, phase: v1.VolumeBound, status: "Released"},
		"one of a driver to delete": {
			policy: v1.PersistentVolumeReclaimDelete, phase: v1.VolumeBound, change: tune, status: "Released",
			why: []string{"its claim is gone, and who made the volume has to delete it"},
		},
		"a local one to delete, with a provisioner": {
			policy: v1.PersistentVolumeReclaimDelete, phase: v1.VolumeBound, status: "Released",
			change: func(v *v1.PersistentVolume) {
				local(v)
				v.Annotations = map[string]string{provisionedBy: "local-volume-provisioner-n1"}
			},
			why: []string{"its claim is gone, and who made the volume has to delete it"},
		},
		"a local one to delete": {
			policy: v1.PersistentVolumeReclaimDelete, phase: v1.VolumeBound, change: local, status: "Failed",
			why:    []string{"its claim is gone, and nothing here deletes such volumes: empty it, and delete its object"},
			events: []string{"Warning VolumeFailedDelete: nothing here deletes such volumes"},
		},
		"one of Berth's own to delete": {
			policy: v1.PersistentVolumeReclaimDelete, phase: v1.VolumeReleased, status: "Failed",
			change: func(v *v1.PersistentVolume) { v.Annotations = map[string]string{provisionedBy: Provisioner} },
			why:    []string{"its claim is gone, and nothing here deletes such volumes: empty it, and delete its object"},
			events: []string{"Warning VolumeFailedDelete: nothing here deletes such volumes"},
		},
		"one that could not be deleted": {
			policy: v1.PersistentVolumeReclaimDelete, phase: v1.VolumeFailed,
			why: []string{"its claim is gone, and nothing here deletes such volumes: empty it, and delete its object"},
		},
		"one to recycle": {
			policy: v1.PersistentVolumeReclaimRecycle, phase: v1.VolumeBound, status: "Released",
			why:    []string{"its claim is gone, and nothing here recycles volumes: empty it, and remove its spec.claimRef"},
			events: []string{"Warning VolumeFailedRecycle: No recycler plugin found for the volume!"},
		},
		"one that has told so": {
			policy: v1.PersistentVolumeReclaimRecycle, phase: v1.VolumeReleased,
			why: []string{"its claim is gone, and nothing here recycles volumes: empty it, and remove its spec.claimRef"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := controllertest.Ask(t, "PersistentVolume", time.Now(), volumeOf("v", "", "5Gi", func(v *v1.PersistentVolume) {
				v.UID = "v1"
				v.Spec.PersistentVolumeReclaimPolicy, v.Status.Phase = test.policy, test.phase
				v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "a", UID: "gone"}
				if test.change != nil {
					test.change(v)
				}
			}))
			var status v1.PersistentVolumeStatus
			if len(out.Status) > 0 {
				if err := json.Unmarshal(out.Status, &status); err != nil {
					t.Fatal(err)
				}
			}
			if string(status.Phase) != test.status {
				t.Errorf("phase = %q, want %q", status.Phase, test.status)
			}
			var events []string
			for _, e := range out.Events {
				events = append(events, e.Type+" "+e.Reason+": "+e.Message)
			}
			if diff := cmp.Diff(test.why, out.Why); diff != "" {
				t.Errorf("why (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.events, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func podWith(name, node string, source v1.VolumeSource) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: v1.PodSpec{
		NodeName: node, Containers: []v1.Container{{Name: "c", Image: "i"}}, Volumes: []v1.Volume{{Name: "data", VolumeSource: source}},
	}}
}

func TestWhatIsUsedIsKept(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("persistentvolumes", volumeOf("v", "", "5Gi", func(v *v1.PersistentVolume) { v.Finalizers = []string{"a/b"} }))
		w.Create("persistentvolumeclaims", claimOf("a", "", "2Gi"))
		want(t, w, "bound", "a Bound v 5Gi", "v Bound a")
		v := controllertest.ListAll[*v1.PersistentVolume](w, "persistentvolumes")[0]
		if diff := cmp.Diff([]string{"a/b", volumeProtection}, v.Finalizers); diff != "" {
			t.Errorf("the volume's finalizers: %s", diff)
		}
		ofClaim := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}
		w.Create("pods", podWith("waits", "", ofClaim))
		w.Wait(time.Second)
		w.SetPod("waits", func(p *v1.Pod) { p.Spec.NodeName = "" })
		w.Create("pods", podWith("one", "n1", ofClaim))
		w.Create("pods", podWith("two", "n1", ofClaim))
		w.Delete("persistentvolumeclaims", "a", nil)
		w.DeleteAt("persistentvolumes", "", "v", nil)
		want(t, w, "both deleted", "a Bound v 5Gi", "v Bound a")
		w.Delete("pods", "one", &metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		want(t, w, "one of two pods gone", "a Bound v 5Gi", "v Bound a")
		controllertest.Change(w, "persistentvolumes", "", "v", func(v *v1.PersistentVolume) { v.Finalizers = []string{volumeProtection} })
		w.Delete("pods", "two", &metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		want(t, w, "both pods gone")
	})
}

// The claim of a pod's ephemeral volume is the pod's while that has not been shut
// down; one of the same name that somebody made is not.
func TestAClaimOfAnEphemeralVolumeIsKeptForItsPod(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		ephemeral := v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: claimOf("", "", "1Gi").Spec}}}
		pod := func(name string) *v1.Pod {
			p := podWith(name, "n1", ephemeral)
			p.Finalizers = []string{"a/b"}
			return p
		}
		own := w.Create("pods", pod("own"))
		w.Create("pods", pod("other"))
		w.Create("persistentvolumeclaims", claimOf("own-data", "", "1Gi", func(c *v1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(own, v1.SchemeGroupVersion.WithKind("Pod"))}
		}))
		w.Create("persistentvolumeclaims", claimOf("other-data", "", "1Gi"))
		want(t, w, "made", "other-data Pending  0", "own-data Pending  0")
		w.Delete("persistentvolumeclaims", "own-data", nil)
		w.Delete("persistentvolumeclaims", "other-data", nil)
		want(t, w, "deleted", "own-data Pending  0")
		w.Delete("pods", "own", &metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		want(t, w, "its pod has been shut down")
	})
}
