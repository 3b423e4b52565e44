package maxvolumecount

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/policies-wasm/storage"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

const schema = `{"type":"object","additionalProperties":false,"properties":{"maxVolumes":{"type":"integer",` +
	`"minimum":1,"maximum":100000,"description":"how many different disks a node can have"}}}`

// kind is one kind of disk.
type kind struct {
	policy, what, provisioner, resource string
	kind                                facts.VolumeKind
	most                                int64
}

var kinds = [...]kind{
	{"MaxEBSVolumeCount", "EBS volumes", "kubernetes.io/aws-ebs", "attachable-volumes-aws-ebs", facts.VolumeAWSElasticBlockStore, 39},
	{"MaxGCEPDVolumeCount", "GCE disks", "kubernetes.io/gce-pd", "attachable-volumes-gce-pd", facts.VolumeGCEPersistentDisk, 16},
	{"MaxAzureDiskVolumeCount", "Azure disks", "kubernetes.io/azure-disk", "attachable-volumes-azure-disk", facts.VolumeAzureDisk, 16},
}

// nitroMost is how many volumes the newer instance types of AWS take.
const nitroMost = 25

type disks struct {
	*storage.Objects
	*kind
	rows                        *row.Table
	provisionerSym, resourceSym facts.Symbol
	instance, betaInstance      facts.Symbol
	set                         int64 // by the settings, 0 if not
	wanted, held                []volume
	types, betaTypes            []facts.Symbol
	refused, missing            guest.ReasonID
}

func (k *kind) open(s *guest.Setup) (any, error) {
	if err := s.Config.OnlyKeys("maxVolumes"); err != nil {
		return nil, err
	}
	syms := s.Rows.Symbols
	d := &disks{
		Objects: storage.New(syms), kind: k, rows: s.Rows,
		provisionerSym: syms.Intern(k.provisioner), resourceSym: syms.Intern(k.resource),
		instance:     syms.Intern("node.kubernetes.io/instance-type"),
		betaInstance: syms.Intern("beta.kubernetes.io/instance-type"),
		refused:      s.Reasons.ID(sdk.Reject("node(s) exceed max volume count")),
		missing:      s.Reasons.ID(sdk.RejectFinal("persistentvolumeclaim not found")),
	}
	var err error
	d.set, err = s.Config.Int("maxVolumes", 1, 100000, 0)
	return d, err
}

func (d *disks) PreFilter(pod *sdk.Pod) guest.Answer {
	d.wanted = d.wanted[:0]
	for i := range pod.Volumes {
		v := pod.Volumes[i]
		if v.Kind == facts.VolumeClaim && d.Claim(pod.Namespace, &v) == nil {
			return d.Refuse(d.missing, d.NoClaim(pod.Namespace, &v))
		}
		v.Namespace = pod.Namespace
		d.wanted = d.add(d.wanted, &v)
	}
	if len(d.wanted) == 0 {
		return guest.Skip
	}
	if d.kind.kind == facts.VolumeAWSElasticBlockStore {
		d.types, d.betaTypes = d.rows.LabelColumn(d.instance), d.rows.LabelColumn(d.betaInstance)
	}
	return guest.AskRows
}

// add appends a disk of the kind, if it is one and new.
func (d *disks) add(to []volume, v *facts.Volume) []volume {
	one, ok := d.diskOf(v)
	if ok && !slices.Contains(to, one) {
		to = append(to, one)
	}
	return to
}

func (d *disks) diskOf(v *facts.Volume) (volume, bool) {
	if v.Kind != facts.VolumeClaim {
		return volume{kind: v.Kind, id: v.ID}, v.Kind == d.kind.kind
	}
	claim := d.Claim(v.Namespace, v)
	if claim == nil {
		return volume{}, false
	}
	if pv := d.Volumes[claim.Claim.VolumeName]; pv != nil {
		return volume{kind: pv.Volume.Source.Kind, id: pv.Volume.Source.ID}, pv.Volume.Source.Kind == d.kind.kind
	}
	class := d.Classes[claim.Claim.StorageClass]
	return volume{kind: facts.VolumeClaim, id: v.ID, namespace: v.Namespace}, class != nil && class.Provisioner == d.provisionerSym
}

func (d *disks) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = 0
		d.held = d.held[:0]
		for k := range d.rows.Volumes[slot] {
			d.held = d.add(d.held, &d.rows.Volumes[slot][k])
		}
		before := len(d.held)
		for _, v := range d.wanted {
			if !slices.Contains(d.held, v) {
				d.held = append(d.held, v)
			}
		}
		if len(d.held) > before && int64(len(d.held)) > d.limit(slot) {
			verdicts[i] = d.refused
		}
	}
}

func (d *disks) limit(slot int32) int64 {
	for _, s := range d.rows.AllocatableScalars[slot] {
		if s.Name == d.resourceSym {
			return s.Value
		}
	}
	if d.set > 0 {
		return d.set
	}
	if d.kind.kind == facts.VolumeAWSElasticBlockStore && d.nitro(slot) {
		return nitroMost
	}
	return d.most
}

func (d *disks) nitro(slot int32) bool {
	name := d.types[slot]
	if name == facts.NoSymbol {
		name = d.betaTypes[slot]
	}
	text := d.rows.Symbols.String(name)
	for _, family := range [...]string{"c5", "m5", "r5"} {
		if strings.HasPrefix(text, family) {
			return true
		}
	}
	return strings.Contains(text, "t3") || strings.Contains(text, "z1d")
}
