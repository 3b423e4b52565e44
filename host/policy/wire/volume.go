package wire

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// volume is what placing a pod must know of one of its volumes.
type volume struct {
	name, id, pool, namespace string
	kind                      fb.VolumeKind
	readOnly, ephemeral       bool
	monitors                  []string
	uses                      int32
}

// volumeOf tells a pod's volume; ok is false for those that are made on any
// node, such as ConfigMaps and tokens.
func volumeOf(o *v1.Pod, s *v1.Volume) (v volume, ok bool) {
	v = volume{name: s.Name, namespace: o.Namespace, uses: 1}
	switch {
	case s.PersistentVolumeClaim != nil:
		v.kind, v.id, v.readOnly = fb.VolumeKindClaim, s.PersistentVolumeClaim.ClaimName, s.PersistentVolumeClaim.ReadOnly
	case s.Ephemeral != nil:
		v.kind, v.id, v.ephemeral = fb.VolumeKindClaim, o.Name+"-"+s.Name, true
	case s.GCEPersistentDisk != nil:
		v.kind, v.id, v.readOnly = fb.VolumeKindGCEPersistentDisk, s.GCEPersistentDisk.PDName, s.GCEPersistentDisk.ReadOnly
	case s.AWSElasticBlockStore != nil:
		v.kind, v.id = fb.VolumeKindAWSElasticBlockStore, s.AWSElasticBlockStore.VolumeID
		v.readOnly = s.AWSElasticBlockStore.ReadOnly
	case s.AzureDisk != nil:
		v.kind, v.id = fb.VolumeKindAzureDisk, s.AzureDisk.DataDiskURI
		v.readOnly = s.AzureDisk.ReadOnly != nil && *s.AzureDisk.ReadOnly
	case s.ISCSI != nil:
		v.kind, v.id, v.readOnly = fb.VolumeKindISCSI, s.ISCSI.IQN, s.ISCSI.ReadOnly
	case s.RBD != nil:
		v.kind, v.id, v.pool = fb.VolumeKindRBD, s.RBD.RBDImage, s.RBD.RBDPool
		v.monitors, v.readOnly = s.RBD.CephMonitors, s.RBD.ReadOnly
	case s.CSI != nil:
		v.kind, v.id = fb.VolumeKindCSI, s.CSI.Driver
		v.readOnly = s.CSI.ReadOnly != nil && *s.CSI.ReadOnly
	default:
		return v, false
	}
	return v, true
}

// persistentSource tells what a PersistentVolume is made of.
func persistentSource(s *v1.PersistentVolumeSource) (v volume) {
	v.uses = 1
	switch {
	case s.GCEPersistentDisk != nil:
		v.kind, v.id, v.readOnly = fb.VolumeKindGCEPersistentDisk, s.GCEPersistentDisk.PDName, s.GCEPersistentDisk.ReadOnly
	case s.AWSElasticBlockStore != nil:
		v.kind, v.id = fb.VolumeKindAWSElasticBlockStore, s.AWSElasticBlockStore.VolumeID
		v.readOnly = s.AWSElasticBlockStore.ReadOnly
	case s.AzureDisk != nil:
		v.kind, v.id = fb.VolumeKindAzureDisk, s.AzureDisk.DataDiskURI
	case s.ISCSI != nil:
		v.kind, v.id, v.readOnly = fb.VolumeKindISCSI, s.ISCSI.IQN, s.ISCSI.ReadOnly
	case s.RBD != nil:
		v.kind, v.id, v.pool = fb.VolumeKindRBD, s.RBD.RBDImage, s.RBD.RBDPool
		v.monitors, v.readOnly = s.RBD.CephMonitors, s.RBD.ReadOnly
	case s.CSI != nil:
		v.kind, v.id, v.readOnly = fb.VolumeKindCSI, s.CSI.Driver, s.CSI.ReadOnly
	}
	return v
}

func (e *Encoder) volume(v *volume) offset {
	name, id, pool := e.str(v.name), e.str(v.id), e.str(v.pool)
	namespace, monitors := e.str(v.namespace), e.strs(v.monitors)
	fb.VolumeStart(e.b)
	fb.VolumeAddName(e.b, name)
	fb.VolumeAddKind(e.b, v.kind)
	fb.VolumeAddId(e.b, id)
	fb.VolumeAddReadOnly(e.b, v.readOnly)
	fb.VolumeAddPool(e.b, pool)
	fb.VolumeAddMonitors(e.b, monitors)
	fb.VolumeAddEphemeral(e.b, v.ephemeral)
	fb.VolumeAddNamespace(e.b, namespace)
	fb.VolumeAddUses(e.b, v.uses)
	return fb.VolumeEnd(e.b)
}

func (e *Encoder) podVolumes(o *v1.Pod) offset {
	mark := len(e.offs)
	for i := range o.Spec.Volumes {
		if v, ok := volumeOf(o, &o.Spec.Volumes[i]); ok {
			e.push(e.volume(&v))
		}
	}
	return e.vector(mark)
}

// rowVolumes writes what the row's pods hold, equal ones once with a count.
func (e *Encoder) rowVolumes(r *snapshot.Row) offset {
	var held []volume
	for _, p := range r.Pods {
		for i := range p.Object.Spec.Volumes {
			if v, ok := volumeOf(p.Object, &p.Object.Spec.Volumes[i]); ok {
				held = hold(held, v)
			}
		}
	}
	mark := len(e.offs)
	for i := range held {
		e.push(e.volume(&held[i]))
	}
	items := e.vector(mark)
	fb.VolumesStart(e.b)
	fb.VolumesAddItems(e.b, items)
	return fb.VolumesEnd(e.b)
}

func hold(held []volume, v volume) []volume {
	v.name = ""
	for i := range held {
		if held[i].same(&v) {
			held[i].uses++
			return held
		}
	}
	return append(held, v)
}

func (v *volume) same(w *volume) bool {
	if v.kind != w.kind || v.id != w.id || v.pool != w.pool || v.namespace != w.namespace ||
		v.readOnly != w.readOnly || len(v.monitors) != len(w.monitors) {
		return false
	}
	for i := range v.monitors {
		if v.monitors[i] != w.monitors[i] {
			return false
		}
	}
	return true
}
