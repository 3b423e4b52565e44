package volumes

import (
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Provisioner is what a StorageClass names to have volumes made in folders of
// nodes. Its parameter path is the folder that they are made in.
const Provisioner = "berth.dev/hostpath"

const defaultPath = "/var/lib/berth/volumes"

// Annotations that Kubernetes puts on claims and volumes.
const (
	bindCompleted     = "pv.kubernetes.io/bind-completed"
	boundByController = "pv.kubernetes.io/bound-by-controller"
	provisionedBy     = "pv.kubernetes.io/provisioned-by"
	selectedNode      = "volume.kubernetes.io/selected-node"
	provisionerOf     = "volume.kubernetes.io/storage-provisioner"
	oldProvisionerOf  = "volume.beta.kubernetes.io/storage-provisioner"
	oldClass          = "volume.beta.kubernetes.io/storage-class"
	isDefault         = "storageclass.kubernetes.io/is-default-class"
	oldIsDefault      = "storageclass.beta.kubernetes.io/is-default-class"
)

func init() {
	sdk.Controller("PersistentVolumeClaim", claims{},
		reconcile.Kind{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Facts: []string{abi.FactStorage}, Writes: []string{"patch"},
			Fields: []string{
				"spec.accessModes", "spec.storageClassName", "spec.volumeName", "spec.volumeMode", "spec.selector", "spec.resources",
				"spec.dataSource", "spec.dataSourceRef", "spec.volumeAttributesClassName", "status.phase",
			},
		},
		nil,
		sdk.Related(
			reconcile.Kind{
				APIVersion: "v1", Kind: "PersistentVolume", By: abi.ByReference, Path: "spec.claimRef", Facts: []string{abi.FactStorage},
				Fields: []string{
					"spec.accessModes", "spec.capacity", "spec.storageClassName", "spec.volumeMode", "spec.volumeAttributesClassName",
					"spec.claimRef", "spec.nodeAffinity", "status.phase",
				},
				Writes: []string{"create", "patch"},
			},
			reconcile.Kind{
				APIVersion: "storage.k8s.io/v1", Kind: "StorageClass", By: abi.ByCluster,
				Fields: []string{"provisioner", "volumeBindingMode", "reclaimPolicy", "parameters", "mountOptions"},
			},
			reconcile.Kind{APIVersion: "v1", Kind: "Pod", By: abi.ByClaim, Fields: []string{"spec.nodeName"}}),
		sdk.Describe("Binds PersistentVolumeClaims, makes the volumes of "+Provisioner+", and keeps claims that pods use."))
}

type claims struct{}

// claim is the parent, read once.
type claim struct {
	*reconcile.Request
	out    *reconcile.Result
	volume string // spec.volumeName
	phase  string
	class  string
	// unclassed: it says nothing of a class, and gets the default one.
	unclassed bool
}

func (claims) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	if r.Parent.Deleted != 0 {
		letGo(r, &out)
		return out, nil
	}
	out.AddFinalizer(&r.Parent, claimProtection)
	c := &claim{Request: r, out: &out}
	c.volume, _ = r.Parent.Field("spec.volumeName").Text()
	c.phase, _ = r.Parent.Field("status.phase").Text()
	var named bool
	c.class, named = classOf(&r.Parent)
	c.unclassed = !named
	if c.volume != "" {
		c.keep()
		return out, nil
	}
	err = c.find()
	return out, err
}

// keep looks after a claim that names its volume.
func (c *claim) keep() {
	_, bound := c.Parent.Annotations.Get(bindCompleted)
	for _, v := range c.RelatedOf("PersistentVolume") {
		if v.Name != c.volume || !c.mayHave(v) {
			continue
		}
		if why := c.mismatch(v); why != "" && !bound && v.Field("spec.claimRef").IsNull() {
			c.event("Warning", "VolumeMismatch", `Cannot bind to requested volume "`+v.Name+`": `+why)
			c.waits("volume " + v.Name + " is not what it asks for: " + why)
			return
		}
		c.bind(v)
		return
	}
	if !bound {
		c.waits("volume " + c.volume + " is not there, or another claim's")
		return
	}
	if c.phase != "Lost" {
		c.out.Status = `{"phase":"Lost"}`
		c.event("Warning", "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	}
	c.waits("volume " + c.volume + " is lost")
}

// mayHave tells whether a volume is nobody's or this claim's already.
func (c *claim) mayHave(v *reconcile.Object) bool {
	ref := v.Field("spec.claimRef")
	if ref.IsNull() {
		return true
	}
	uid := ref.String("uid", "")
	return ref.String("name", "") == c.Parent.Name && ref.String("namespace", "") == c.Parent.Namespace && (uid == "" || uid == c.Parent.UID)
}

// find finds a volume for a claim that has none, or makes it.
func (c *claim) find() error {
	class, fallback := c.classes()
	if c.unclassed && fallback != nil {
		c.patch((&json.Writer{}).Open('{').Key("spec").Open('{').Key("storageClassName").Text(fallback.Name).Close('}').Close('}'))
		return nil
	}
	delayed := class != nil && text(class, "volumeBindingMode") == "WaitForFirstConsumer"
	best, err := c.best(!delayed)
	if err != nil {
		return err
	}
	node, _ := c.Parent.Annotations.Get(selectedNode)
	switch {
	case best != nil:
		c.bind(best)
		if by, _ := best.Annotations.Get(provisionedBy); by == Provisioner && best.Name == c.own() {
			c.event("Normal", "ProvisioningSucceeded", "Successfully provisioned volume "+best.Name+" using "+Provisioner)
		}
	case delayed && node == "":
		c.event("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
		c.waits("it waits for a pod that uses it")
	case c.class == "":
		c.event("Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
		c.waits("no volume fits, and it has no storage class")
	case class == nil:
		c.event("Warning", "ProvisioningFailed", `storageclass.storage.k8s.io "`+c.class+`" not found`)
		c.waits("there is no StorageClass " + c.class)
	default:
		c.provision(class, node)
	}
	return nil
}

// classes are the claim's StorageClass and the default one: of several the newest.
func (c *claim) classes() (own, fallback *reconcile.Object) {
	for _, class := range c.RelatedOf("StorageClass") {
		if class.Name == c.class && !c.unclassed {
			own = class
		}
		yes, _ := class.Annotations.Get(isDefault)
		old, _ := class.Annotations.Get(oldIsDefault)
		if yes != "true" && old != "true" {
			continue
		}
		if fallback == nil || class.Created > fallback.Created || class.Created == fallback.Created && class.Name < fallback.Name {
			fallback = class
		}
	}
	return own, fallback
}

// provision makes a volume, or says who has to.
func (c *claim) provision(class *reconcile.Object, node string) {
	provisioner := text(class, "provisioner")
	switch {
	case provisioner == "kubernetes.io/no-provisioner":
		c.event("Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
		c.waits("no volume fits, and StorageClass " + c.class + " makes none")
	case provisioner != Provisioner:
		if was, _ := c.Parent.Annotations.Get(provisionerOf); was != provisioner {
			j := (&json.Writer{}).Open('{').Key("metadata").Open('{').Key("annotations").Open('{')
			c.patch(j.Key(provisionerOf).Text(provisioner).Key(oldProvisionerOf).Text(provisioner).Close('}').Close('}').Close('}'))
		}
		c.event("Normal", "ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner '"+provisioner+"' or manually by the system administrator. "+
			"If volume creation is delayed, please verify that the provisioner is running and correctly registered.")
		c.waits("provisioner " + provisioner + " has to make its volume")
	default:
		if why := c.refusal(class, node); why != "" {
			c.fails(why)
			return
		}
		if c.Refused != "" {
			c.fails(c.Refused)
		}
		c.create(class, node)
	}
}

// refusal says why no folder is made for the claim, "" if one is: an empty one in
// place of what it asks for would be taken for it.
func (c *claim) refusal(class *reconcile.Object, node string) string {
	asks := func(field string) bool { return !c.Parent.Field(field).IsNull() }
	switch {
	case modeOf(&c.Parent) == "Block":
		return Provisioner + " makes folders, no block devices: ask for volumeMode Filesystem"
	case asks("spec.dataSource") || asks("spec.dataSourceRef"):
		return Provisioner + " makes empty volumes, and fills none from spec.dataSource"
	case asks("spec.selector"):
		return "claim.Spec.Selector is not supported for dynamic provisioning: label a volume that it selects, or leave it out"
	case attributesOf(&c.Parent) != "":
		return Provisioner + " knows no volume attributes: leave spec.volumeAttributesClassName out"
	case !class.Field("mountOptions").IsNull():
		return Provisioner + " makes folders, which are not mounted: StorageClass " + c.class + " may have no mountOptions"
	case text(class, "reclaimPolicy") == "Delete":
		return Provisioner + " keeps what was written: give StorageClass " + c.class + " reclaimPolicy Retain"
	case strings.Contains("/"+folder(class)+"/", "/../"):
		return Provisioner + " makes no folder by a path with ..: StorageClass " + c.class + " has the path " + folder(class)
	case stray(class) != "":
		return Provisioner + " knows one parameter, path: StorageClass " + c.class + " may not have " + stray(class)
	case node == "":
		return Provisioner + " makes a volume on the node of the pod: give StorageClass " + c.class + " volumeBindingMode WaitForFirstConsumer"
	}
	return ""
}

// stray is a parameter of a class that is not read, "" if it has none.
func stray(class *reconcile.Object) string {
	for _, key := range class.Field("parameters").Keys() {
		if key != "path" {
			return key
		}
	}
	return ""
}

// folder is where the volumes of a class are made.
func folder(class *reconcile.Object) string {
	return class.Field("parameters").String("path", defaultPath)
}

// own is the name of the volume that is made for the claim.
func (c *claim) own() string { return "pvc-" + c.Parent.UID }

// create makes the volume in a folder of the node. Admission may refuse that: the claim
// is bound when the volume is seen.
func (c *claim) create(class *reconcile.Object, node string) {
	name := c.own()
	mode, _ := c.Parent.Field("spec.volumeMode").Text()
	j := (&json.Writer{}).Open('{').Key("apiVersion").Text("v1").Key("kind").Text("PersistentVolume")
	j.Key("metadata").Open('{').Key("name").Text(name)
	j.Key("finalizers").Texts([]string{volumeProtection}).Key("annotations").Open('{').Key(provisionedBy).Text(Provisioner).Close('}').Close('}')
	j.Key("spec").Open('{').Key("capacity").Open('{').Key("storage").Value(c.Parent.Field("spec.resources").Object("requests").Object("storage").JSON()).Close('}')
	j.Key("accessModes").Value(c.Parent.JSON("spec.accessModes"))
	j.Key("storageClassName").Text(class.Name).Member("volumeMode", mode)
	j.Member("persistentVolumeReclaimPolicy", text(class, "reclaimPolicy"))
	j.Key("hostPath").Open('{').Key("path").Text(folder(class) + "/" + name).Key("type").Text("DirectoryOrCreate").Close('}')
	j.Key("nodeAffinity").Open('{').Key("required").Open('{').Key("nodeSelectorTerms").Open('[').Open('{').Key("matchExpressions").Open('[')
	j.Open('{').Key("key").Text("kubernetes.io/hostname").Key("operator").Text("In").Key("values").Open('[').Text(node).Close(']').Close('}')
	j.Close(']').Close('}').Close(']').Close('}').Close('}')
	c.reference(j).Close('}').Close('}')
	c.out.Create = append(c.out.Create, reconcile.Creation{Object: string(j.Bytes()), Count: 1, Unowned: true})
	c.out.Step = true
}

// reference is the member claimRef with this claim.
func (c *claim) reference(j *json.Writer) *json.Writer {
	j.Key("claimRef").Open('{').Key("apiVersion").Text("v1").Key("kind").Text("PersistentVolumeClaim")
	return j.Key("namespace").Text(c.Parent.Namespace).Key("name").Text(c.Parent.Name).Key("uid").Text(c.Parent.UID).Close('}')
}

// bind makes a volume the claim's own, as far as it is not yet.
func (c *claim) bind(v *reconcile.Object) {
	if ref := v.Field("spec.claimRef"); ref.String("uid", "") != c.Parent.UID {
		j := (&json.Writer{}).Open('{')
		if ref.IsNull() {
			j.Key("metadata").Open('{').Key("annotations").Open('{').Key(boundByController).Text("yes").Close('}').Close('}')
		}
		c.reference(j.Key("spec").Open('{')).Close('}').Close('}')
		c.out.Patch = append(c.out.Patch, reconcile.Patch{UID: v.UID, Patch: string(j.Bytes())})
		c.out.AddFinalizer(v, volumeProtection)
	}
	c.claims(v)
}

// claims has the claim name its volume, and say that it is bound.
func (c *claim) claims(v *reconcile.Object) {
	_, completed := c.Parent.Annotations.Get(bindCompleted)
	if !completed || c.volume == "" {
		j := (&json.Writer{}).Open('{').Key("metadata").Open('{').Key("annotations").Open('{').Key(bindCompleted).Text("yes")
		if c.volume == "" {
			j.Key(boundByController).Text("yes")
		}
		j.Close('}').Close('}')
		if c.volume == "" {
			j.Key("spec").Open('{').Key("volumeName").Text(v.Name).Close('}')
		}
		c.patch(j.Close('}'))
	}
	if c.phase != "Bound" {
		j := (&json.Writer{}).Open('{').Key("phase").Text("Bound").Key("accessModes").Value(v.JSON("spec.accessModes")).Key("capacity").Value(v.JSON("spec.capacity"))
		c.out.Status = string(j.Close('}').Bytes())
	}
}

func (c *claim) patch(j *json.Writer) {
	c.out.Patch = append(c.out.Patch, reconcile.Patch{UID: c.Parent.UID, Patch: string(j.Bytes())})
}

func (c *claim) event(kind, reason, message string) {
	c.out.Events = append(c.out.Events, reconcile.Event{Type: kind, Reason: reason, Message: message})
}

func (c *claim) waits(why string) { c.out.Why = []string{why} }

func (c *claim) fails(why string) {
	c.event("Warning", "ProvisioningFailed", why)
	c.waits(why)
}

func text(o *reconcile.Object, field string) string {
	t, _ := o.Field(field).Text()
	return t
}
