// Command ttl deletes what has lived long enough: an object says by an
// annotation for how many seconds after its creation it is wanted.
//
//	example.test/ttl-seconds: "3600"
//
// The module has one policy a kind: TTLConfigMap, TTLSecret, TTLPod, TTLService,
// TTLDeployment, TTLJob and TTLPersistentVolumeClaim.
package main

import (
	"strconv"
	"time"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Annotation says for how many seconds an object is wanted.
const Annotation = "example.test/ttl-seconds"

const second = 1_000_000_000

type ttl struct{}

func (ttl) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	o := &r.Parent
	text, ok := o.Annotations.Get(Annotation)
	if o.Deleted != 0 || !ok {
		return out, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		out.Why = []string{"the annotation " + Annotation + " is no number of seconds"}
		return out, nil
	}
	left := o.Created + int64(seconds)*second - r.Now
	if left > 0 {
		out.RequeueAfter = time.Duration(left)
		return out, nil
	}
	out.Delete = []reconcile.Deletion{{UID: o.UID, Success: "Deleted after its " + text + " seconds"}}
	return out, nil
}

func init() {
	sdk.Module("ttl", "0.1.0")
	for _, k := range []reconcile.Kind{
		{APIVersion: "v1", Kind: "ConfigMap"},
		{APIVersion: "v1", Kind: "Secret"},
		{APIVersion: "v1", Kind: "Pod"},
		{APIVersion: "v1", Kind: "Service"},
		{APIVersion: "apps/v1", Kind: "Deployment"},
		{APIVersion: "batch/v1", Kind: "Job"},
		{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
	} {
		k.Writes = []string{"delete"}
		sdk.Controller("TTL"+k.Kind, ttl{}, k, nil, sdk.Describe("Deletes each "+k.Kind+" that has lived as long as its annotation says."))
	}
}

func main() {}
