package controller

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
	"k8s.io/utils/lru"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/store"
)

// facts works out what guests cannot: hashes over Go's types, and what other
// objects say.
type facts struct {
	objects Objects
	usage   func(*v1.Pod) *Usage
	now     func() time.Time
	// made remembers facts that cost much, by what they are of.
	made *lru.Cache
}

type factKey struct {
	uid        string
	generation int64
	collisions int32
	name       string
}

func newFacts(objects Objects, usage func(*v1.Pod) *Usage, now func() time.Time) *facts {
	return &facts{objects, usage, now, lru.New(20_000)}
}

// of is a fact as JSON, nil where the object has none.
func (f *facts) of(name string, o store.Object) (json.RawMessage, error) {
	if of := ofStatus[name]; of != nil {
		return of(o)
	}
	switch name {
	case abi.FactNodeZone:
		return f.zone(o)
	case abi.FactPodUsage:
		return f.podUsage(o)
	case abi.FactPodRequests:
		return podRequests(o)
	case abi.FactZone:
		return f.scheduleZone(o)
	case abi.FactPodPorts:
		return podPorts(o)
	case abi.FactPodClaims:
		return podClaims(o)
	case abi.FactStorage:
		return storage(o), nil
	}
	return f.ofTemplate(name, o)
}

// ofTemplate is a fact of an object's pod template, remembered while the object is
// of the same generation.
func (f *facts) ofTemplate(name string, o store.Object) (json.RawMessage, error) {
	template := templateOf(o)
	if template == nil {
		return nil, nil
	}
	collisions := collisionsOf(o)
	key := factKey{string(o.GetUID()), o.GetGeneration(), collisions, name}
	remember := key.uid != "" && key.generation != 0
	if remember {
		if was, ok := f.made.Get(key); ok {
			return was.(json.RawMessage), nil
		}
	}
	text, err := templateFact(name, template, collisions, hasCollisions(o))
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(text)
	if err == nil && remember {
		f.made.Add(key, json.RawMessage(value))
	}
	return value, err
}

func templateFact(name string, template *v1.PodTemplateSpec, collisions int32, collided bool) (string, error) {
	switch name {
	case abi.FactTemplateHash:
		return templateHash(template, collisions, collided), nil
	case abi.FactTemplateID:
		return templateID(template)
	case abi.FactTemplateRevision:
		return templateRevision(template)
	}
	return "", fmt.Errorf("fact %q is unknown", name)
}

// templateHash is the value of the label pod-template-hash as Kubernetes
// computes it.
func templateHash(template *v1.PodTemplateSpec, collisions int32, collided bool) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(*template))
	if collided {
		var b [8]byte
		binary.LittleEndian.PutUint32(b[:], uint32(collisions))
		h.Write(b[:])
	}
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// templateID is equal for templates that mean the same.
func templateID(template *v1.PodTemplateSpec) (string, error) {
	t := template.DeepCopy()
	delete(t.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	data, err := json.Marshal(t)
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:12]), err
}

// templateRevision is the patch by which a ControllerRevision goes back to the
// template.
func templateRevision(template *v1.PodTemplateSpec) (string, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return "", err
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		return "", err
	}
	m["$patch"] = "replace"
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": m}})
	return string(patch), err
}

func podClaims(o store.Object) (json.RawMessage, error) {
	pod, ok := o.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	claims := map[string]string{}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil {
			claims[v.Name] = v.PersistentVolumeClaim.ClaimName
		}
	}
	if len(claims) == 0 {
		return nil, nil
	}
	return json.Marshal(claims)
}

// storage is how large a volume is, or is to be.
func storage(o store.Object) json.RawMessage {
	var amount resource.Quantity
	switch o := o.(type) {
	case *v1.PersistentVolumeClaim:
		amount = o.Spec.Resources.Requests[v1.ResourceStorage]
	case *v1.PersistentVolume:
		amount = o.Spec.Capacity[v1.ResourceStorage]
	default:
		return nil
	}
	return strconv.AppendInt(nil, amount.Value(), 10)
}

func (f *facts) zone(o store.Object) (json.RawMessage, error) {
	pod, ok := o.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil, nil
	}
	node, ok := f.objects.Get(store.Key{Resource: "nodes", Name: pod.Spec.NodeName})
	if !ok || node.GetLabels()[v1.LabelTopologyZone] == "" {
		return nil, nil
	}
	return json.Marshal(node.GetLabels()[v1.LabelTopologyZone])
}

// podFacts are the fact "pod".
func podFacts(pod *v1.Pod) wire.PodFacts {
	f := wire.PodFacts{
		Phase: string(pod.Status.Phase), NodeName: pod.Spec.NodeName, Hostname: pod.Spec.Hostname, Subdomain: pod.Spec.Subdomain,
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodReady {
			f.Ready, f.ReadySince = c.Status == v1.ConditionTrue, c.LastTransitionTime
		}
	}
	for i := range pod.Status.ContainerStatuses {
		f.Restarts = max(f.Restarts, pod.Status.ContainerStatuses[i].RestartCount)
	}
	for i := range pod.Status.PodIPs {
		f.IPs = append(f.IPs, pod.Status.PodIPs[i].IP)
	}
	return f
}

// samePod tells whether two states of a pod have the same facts.
func samePod(a, b store.Object) bool {
	was, ok := a.(*v1.Pod)
	is, ok2 := b.(*v1.Pod)
	if !ok || !ok2 {
		return true
	}
	return reflect.DeepEqual(podFacts(was), podFacts(is))
}

// podPorts are the named ports of containers and sidecars; of two with one name
// the first counts.
func podPorts(o store.Object) (json.RawMessage, error) {
	pod, ok := o.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	ports := map[string]int32{}
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			key := p.Name + "/" + string(p.Protocol)
			if _, twice := ports[key]; p.Name != "" && !twice {
				ports[key] = p.ContainerPort
			}
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	if len(ports) == 0 {
		return nil, nil
	}
	return json.Marshal(ports)
}

// templateOf is the object's spec.template, nil if it has none.
func templateOf(o store.Object) *v1.PodTemplateSpec {
	field := specField(o, "Template")
	if !field.IsValid() {
		return nil
	}
	switch t := field.Interface().(type) {
	case v1.PodTemplateSpec:
		return &t
	case *v1.PodTemplateSpec:
		return t
	}
	return nil
}

func specField(o store.Object, name string) reflect.Value {
	spec := reflect.ValueOf(o).Elem().FieldByName("Spec")
	if !spec.IsValid() || spec.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return spec.FieldByName(name)
}

func collisionCount(o store.Object) *int32 {
	status := reflect.ValueOf(o).Elem().FieldByName("Status")
	if !status.IsValid() || status.Kind() != reflect.Struct {
		return nil
	}
	field := status.FieldByName("CollisionCount")
	if !field.IsValid() {
		return nil
	}
	n, _ := field.Interface().(*int32)
	return n
}

func hasCollisions(o store.Object) bool { return collisionCount(o) != nil }

func collisionsOf(o store.Object) int32 {
	if n := collisionCount(o); n != nil {
		return *n
	}
	return -1
}
