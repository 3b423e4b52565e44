package reconcile

import (
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/json"
)

// Object is an object as a controller sees it: its metadata, and the
// fields that the policy's manifest asks for. Times are nanoseconds since
// 1970, 0 where there is none. It and its texts are the call's: a controller
// keeps none of them for the next, and changes none, which may be told of again.
type Object struct {
	APIVersion, Kind, Namespace, Name, UID string
	Generation, Created, Deleted           int64
	Labels, Annotations                    facts.Labels
	Owners                                 []facts.Owner
	Finalizers                             []string
	ResourceVersion                        string
	// Pod is set, and HasPod true, if the kind asks for the fact abi.FactPod.
	Pod    PodFacts
	HasPod bool
	syms   *facts.Symbols
	fields []controlField
	round  uint32 // in which known found it last
}

// PodFacts are what matters of a pod to those that count pods.
type PodFacts struct {
	Phase string
	Ready bool
	// ReadySince is when Ready last changed.
	ReadySince int64
	NodeName   string
	// Restarts is the most that a container was restarted.
	Restarts            int64
	IPs                 []string
	Hostname, Subdomain string
}

type controlField struct{ path, json string }

// JSON is a field as it is, "" if the object has none there.
func (o *Object) JSON(path string) string {
	for i := range o.fields {
		if o.fields[i].path == path {
			return o.fields[i].json
		}
	}
	return ""
}

// Field is a field, null if the object has none there.
func (o *Object) Field(path string) json.Value { return json.Compact(o.JSON(path)) }

// Controller is the UID of the owner that controls the object, "" if none does.
func (o *Object) Controller() string {
	for _, owner := range o.Owners {
		if owner.Controller {
			return o.syms.String(owner.UID)
		}
	}
	return ""
}
