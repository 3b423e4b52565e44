package maxvolumecount

import (
	"slices"

	"github.com/berth-dev/berth/policies-wasm/storage"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

// volume is one volume that is attached, or is to be: a driver's handle, the
// volume that is yet to be made for a claim, or a disk of before CSI.
type volume struct {
	driver, id, namespace facts.Symbol
	kind                  facts.VolumeKind
}

// migrated are the disks of before CSI, by plugin, with the drivers that attach
// them now.
var migrated = [...]struct {
	kind           facts.VolumeKind
	plugin, driver string
}{
	{facts.VolumeAWSElasticBlockStore, "kubernetes.io/aws-ebs", "ebs.csi.aws.com"},
	{facts.VolumeGCEPersistentDisk, "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"},
	{facts.VolumeAzureDisk, "kubernetes.io/azure-disk", "disk.csi.azure.com"},
	{facts.VolumeOther, "kubernetes.io/cinder", "cinder.csi.openstack.org"},
	{facts.VolumeOther, "kubernetes.io/portworx-volume", "pxd.portworx.com"},
}

type csi struct {
	*storage.Objects
	rows *row.Table
	// plugins and drivers are those of migrated.
	plugins, drivers [len(migrated)]facts.Symbol

	// wanted are the pod's volumes, held those of the node at hand.
	wanted, held []volume

	refused, missing guest.ReasonID
}

func openCSI(s *guest.Setup) (any, error) {
	c := &csi{
		Objects: storage.New(s.Rows.Symbols), rows: s.Rows,
		refused: s.Reasons.ID(sdk.Reject("node(s) exceed max volume count")),
		missing: s.Reasons.ID(sdk.RejectFinal("persistentvolumeclaim not found")),
	}
	for i, m := range migrated {
		c.plugins[i], c.drivers[i] = s.Rows.Symbols.Intern(m.plugin), s.Rows.Symbols.Intern(m.driver)
	}
	return c, s.Config.OnlyKeys()
}

func (c *csi) PreFilter(pod *sdk.Pod) guest.Answer {
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.Kind == facts.VolumeClaim && c.Claim(pod.Namespace, v) == nil {
			return c.Refuse(c.missing, c.NoClaim(pod.Namespace, v))
		}
	}
	c.wanted = c.add(c.wanted[:0], pod.Namespace, pod.Volumes)
	if len(c.wanted) == 0 {
		return guest.Skip
	}
	return guest.AskRows
}

// inline is the place in migrated of a disk, -1 if it has none.
func inline(kind facts.VolumeKind) int {
	for i := range migrated {
		if kind != facts.VolumeOther && migrated[i].kind == kind {
			return i
		}
	}
	return -1
}

// add appends the volumes that attach, each once. Those of a row bear the
// namespaces of their pods. Only nodes that have a CSINode have limits, and on
// those the disks of before CSI are a driver's.
func (c *csi) add(to []volume, namespace facts.Symbol, list []facts.Volume) []volume {
	for i := range list {
		v := &list[i]
		space := namespace
		if space == facts.NoSymbol {
			space = v.Namespace
		}
		one, ok := c.volumeOf(space, v)
		if ok && !slices.Contains(to, one) {
			to = append(to, one)
		}
	}
	return to
}

func (c *csi) volumeOf(namespace facts.Symbol, v *facts.Volume) (volume, bool) {
	if v.Kind != facts.VolumeClaim {
		return c.disk(v)
	}
	claim := c.Claim(namespace, v)
	if claim == nil {
		return volume{}, false
	}
	if pv := c.Volumes[claim.Claim.VolumeName]; pv != nil {
		if storage.Empty(pv.Volume.CSIDriver) {
			return c.disk(&pv.Volume.Source)
		}
		return handle(pv.Volume.CSIDriver, pv.Volume.CSIHandle), !storage.Empty(pv.Volume.CSIHandle)
	}
	class := c.Classes[claim.Claim.StorageClass]
	if class == nil || storage.Empty(class.Provisioner) {
		return volume{}, false
	}
	driver := class.Provisioner
	if i := slices.Index(c.plugins[:], driver); i >= 0 {
		driver = c.drivers[i]
	}
	return volume{driver: driver, id: claim.Name, namespace: claim.Namespace, kind: facts.VolumeClaim}, true
}

func handle(driver, id facts.Symbol) volume {
	return volume{driver: driver, id: id, kind: facts.VolumeCSI}
}

func (c *csi) disk(v *facts.Volume) (volume, bool) {
	i := inline(v.Kind)
	if i < 0 {
		return volume{}, false
	}
	return volume{driver: c.drivers[i], id: v.ID, kind: v.Kind}, true
}

func (c *csi) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = 0
		node := c.Nodes[c.rows.Name[slot]]
		if node != nil && limited(node) && !c.fits(slot, node) {
			verdicts[i] = c.refused
		}
	}
}

func limited(n *facts.CSINode) bool {
	return slices.ContainsFunc(n.Drivers, func(d facts.CSINodeDriver) bool { return d.Limit >= 0 })
}

func (c *csi) fits(slot int32, node *facts.CSINode) bool {
	c.held = c.add(c.held[:0], facts.NoSymbol, c.rows.Volumes[slot])
	pods := len(c.held)
	for _, a := range c.Attachments[c.rows.Name[slot]] {
		pv := c.Volumes[a.VolumeName]
		if pv == nil || storage.Empty(pv.Volume.CSIDriver) || storage.Empty(a.Attacher) {
			continue
		}
		if v := handle(a.Attacher, pv.Volume.CSIHandle); !slices.Contains(c.held, v) {
			c.held = append(c.held, v)
		}
	}
	for i := range node.Drivers {
		d := &node.Drivers[i]
		if d.Limit >= 0 && !c.room(d, pods) {
			return false
		}
	}
	return true
}

// room: what the node's pods hold already is no new volume, even though what is
// attached for no pod still counts beside it.
func (c *csi) room(d *facts.CSINodeDriver, pods int) bool {
	added, count := int32(0), int32(0)
	for _, v := range c.wanted {
		if v.driver == d.Name && !slices.Contains(c.held[:pods], v) {
			added++
		}
	}
	for i := range c.held {
		if c.held[i].driver == d.Name {
			count++
		}
	}
	return added == 0 || count+added <= d.Limit
}
