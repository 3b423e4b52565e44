package reconcile

import "github.com/berth-dev/berth/sdk/json"

// Kind names a kind and the fields of it that a controller is given,
// as paths such as "spec.replicas".
type Kind struct {
	APIVersion, Kind string
	Fields           []string
	// Facts are what the host works out of an object: abi.Fact… lists them. They
	// are read as fields are.
	Facts []string
	// By says which objects of the kind belong to a parent, one of abi.By…; Path
	// is the parent's field that holds the selector or the name.
	By, Path string
	// Writes are the verbs that answers use: create, patch, delete. Where it is
	// empty, children may be created and deleted.
	Writes []string
	// Gone: a controller is asked about parents that are gone too, so that it can
	// take back what it left at their children, and given orphans that are being
	// deleted or whose parent is. A parent that is gone has no ResourceVersion, and
	// may have no fields.
	Gone bool
}

// AppendTo writes the kind as a manifest has it.
func (k *Kind) AppendTo(j *json.Writer) {
	j.Open('{').Key("apiVersion").Text(k.APIVersion).Key("kind").Text(k.Kind).Key("fields").Texts(k.Fields)
	j.MemberTexts("facts", k.Facts)
	j.Member("by", k.By).Member("path", k.Path)
	j.MemberTexts("writes", k.Writes)
	if k.Gone {
		j.Key("gone").Bool(true)
	}
	j.Close('}')
}
