package volumes

import (
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

func init() {
	sdk.Controller("PersistentVolume", volumes{},
		reconcile.Kind{
			APIVersion: "v1", Kind: "PersistentVolume", Writes: []string{"patch"},
			Fields: []string{"spec.claimRef", "spec.persistentVolumeReclaimPolicy", "spec.csi", "status.phase"},
		},
		nil,
		sdk.Related(reconcile.Kind{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", By: abi.ByName, Path: "spec.claimRef", Fields: []string{"spec.volumeName"},
		}),
		sdk.Describe("Says of PersistentVolumes whether they are taken, and keeps those that are."))
}

type volumes struct{}

func (volumes) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	inUse := follow(r, &out)
	switch {
	case r.Parent.Deleted == 0:
		out.AddFinalizer(&r.Parent, volumeProtection)
	case inUse:
		out.Why = []string{"its claim has to be deleted first"}
	default:
		out = reconcile.Result{} // it may be gone with this
		out.RemoveFinalizer(&r.Parent, volumeProtection)
	}
	return out, nil
}

// follow says of a volume what its claim makes of it, and tells whether one has it.
func follow(r *reconcile.Request, out *reconcile.Result) (inUse bool) {
	ref := r.Parent.Field("spec.claimRef")
	if ref.String("uid", "") == "" {
		phase(r, out, "Available")
		return false
	}
	for _, claim := range r.RelatedOf("PersistentVolumeClaim") {
		if claim.UID != ref.String("uid", "") {
			continue
		}
		switch text(claim, "spec.volumeName") {
		case r.Parent.Name:
			phase(r, out, "Bound")
			return true
		case "": // the claim is about to name it
		default:
			release(r, out)
		}
		return false
	}
	reclaim(r, out)
	return false
}

// reclaim says what becomes of a volume whose claim is gone.
func reclaim(r *reconcile.Request, out *reconcile.Result) {
	policy := text(&r.Parent, "spec.persistentVolumeReclaimPolicy")
	orphan := policy == "Delete" && !madeElsewhere(&r.Parent)
	if orphan {
		phase(r, out, "Failed")
	} else {
		phase(r, out, "Released")
	}
	tell := func(why, reason, message string) {
		out.Why = []string{"its claim is gone, and " + why}
		if reason != "" && out.Status != "" { // it has just come to this
			out.Events = []reconcile.Event{{Type: "Warning", Reason: reason, Message: message}}
		}
	}
	switch {
	case orphan:
		tell("nothing here deletes such volumes: empty it, and delete its object", "VolumeFailedDelete", "nothing here deletes such volumes")
	case policy == "Delete":
		tell("who made the volume has to delete it", "", "")
	case policy == "Recycle":
		tell("nothing here recycles volumes: empty it, and remove its spec.claimRef", "VolumeFailedRecycle", "No recycler plugin found for the volume!")
	}
}

// madeElsewhere tells whether somebody else looks after a volume: the driver of
// CSI or the provisioner that made it.
func madeElsewhere(v *reconcile.Object) bool {
	by, _ := v.Annotations.Get(provisionedBy)
	return !v.Field("spec.csi").IsNull() || by != "" && by != Provisioner && !strings.HasPrefix(by, "kubernetes.io/")
}

// release takes back that a volume is a claim's which has another one.
func release(r *reconcile.Request, out *reconcile.Result) {
	if _, ours := r.Parent.Annotations.Get(boundByController); !ours {
		out.Why = []string{"spec.claimRef names a claim that has another volume"}
		return
	}
	j := (&json.Writer{}).Open('{').Key("metadata").Open('{').Key("annotations").Open('{').Key(boundByController).Value("null").Close('}').Close('}')
	j.Key("spec").Open('{').Key("claimRef").Value("null").Close('}').Close('}')
	out.Patch = []reconcile.Patch{{UID: r.Parent.UID, Patch: string(j.Bytes())}}
}

func phase(r *reconcile.Request, out *reconcile.Result, phase string) {
	if text(&r.Parent, "status.phase") != phase {
		j := (&json.Writer{}).Open('{').Key("phase").Text(phase).Key("lastPhaseTransitionTime").Text(pods.Time(r.Now))
		out.Status = string(j.Close('}').Bytes())
	}
}
