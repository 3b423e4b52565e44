package explain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/store"
)

// A Driven is a controller that runs.
type Driven struct {
	// Policy is its name, and ServiceAccount who it acts as.
	Policy, ServiceAccount string
	Driver                 *controller.Driver
}

// Objects is what a Parent's report is read from.
type Objects interface {
	Get(store.Key) (store.Object, bool)
	Indexed(resource, index, value string) []store.Object
}

// Parent says why an object that controllers look after is as it is.
type Parent struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Controllers are those that look after its kind.
	Controllers []ControllerSays `json:"controllers"`
	// Children are those of which there is something to say.
	Children []Parent `json:"children,omitempty"`
	// Pods are its own that wait, with the same words counted once.
	Pods []WaitingPods `json:"pods,omitempty"`
}

// ControllerSays is what came of a controller's last question about the object.
type ControllerSays struct {
	Policy         string     `json:"policy"`
	ServiceAccount string     `json:"serviceAccount"`
	Asked          *time.Time `json:"asked,omitempty"`
	// Again is when it is asked next even if nothing changes.
	Again *time.Time `json:"again,omitempty"`
	// Why are its own sentences.
	Why     []string `json:"why,omitempty"`
	Refused string   `json:"refused,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// WaitingPods are pods that wait for the same.
type WaitingPods struct {
	Count   int    `json:"count"`
	Example string `json:"example"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// maxDepth bounds how far children of children are followed.
const maxDepth = 4

// Family is what a Parent's report is made of.
type Family struct {
	Objects Objects
	Drivers []Driven
	// May tells whether who asks may list a kind where the parent is: of what he may
	// not, he is told nothing.
	May func(*kind.Kind) bool
}

// Of reports of one object; nil if there is none.
func (f Family) Of(k *kind.Kind, namespace, name string) *Parent {
	o, ok := f.Objects.Get(k.Key(namespace, name))
	if !ok {
		return nil
	}
	return f.parent(k, o, maxDepth)
}

func (f Family) parent(k *kind.Kind, o store.Object, depth int) *Parent {
	p := &Parent{Kind: k.Name, Namespace: o.GetNamespace(), Name: o.GetName(), Controllers: []ControllerSays{}}
	children := map[string]*kind.Kind{}
	for _, d := range f.Drivers {
		if d.Driver.Of() != k.StoreName() {
			continue
		}
		says := ControllerSays{Policy: d.Policy, ServiceAccount: d.ServiceAccount}
		if last, ok := d.Driver.Last(o.GetNamespace(), o.GetName()); ok {
			says.Asked, says.Why, says.Refused, says.Error = &last.Asked, last.Why, last.Refused, last.Error
			if !last.Again.IsZero() {
				says.Again = &last.Again
			}
		}
		p.Controllers = append(p.Controllers, says)
		for _, resource := range d.Driver.Makes() {
			if child := kind.MustStored(resource); f.May(child) {
				children[resource] = child
			}
		}
	}
	if depth == 0 {
		return p
	}
	own := controller.Kind{APIVersion: k.Stored().String(), Kind: k.Name}
	waiting := map[WaitingPods]WaitingPods{}
	for _, resource := range slices.Sorted(maps.Keys(children)) {
		for _, child := range f.Objects.Indexed(resource, controller.IndexByOwner, string(o.GetUID())) {
			if !controller.ControlledBy(child, &own, o) {
				continue
			}
			if pod, ok := child.(*v1.Pod); ok {
				count(waiting, pod)
				continue
			}
			if of := f.parent(children[resource], child, depth-1); of.tells() {
				p.Children = append(p.Children, *of)
			}
		}
	}
	p.Pods = slices.SortedFunc(maps.Values(waiting), func(a, b WaitingPods) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Example, b.Example))
	})
	return p
}

// tells says whether there is anything to say of it.
func (p *Parent) tells() bool {
	return len(p.Children) > 0 || len(p.Pods) > 0 || slices.ContainsFunc(p.Controllers, func(c ControllerSays) bool { return len(c.Why) > 0 || c.Refused != "" || c.Error != "" })
}

func count(waiting map[WaitingPods]WaitingPods, pod *v1.Pod) {
	reason, message := waitsFor(pod)
	if reason == "" {
		return
	}
	key := WaitingPods{Reason: reason, Message: message}
	w := waiting[key]
	if w.Count == 0 {
		w = WaitingPods{Example: pod.Name, Reason: reason, Message: message}
	}
	w.Example = min(w.Example, pod.Name)
	w.Count++
	waiting[key] = w
}

// waitsFor is what keeps a pod from being ready; empty if it is, or has ended.
func waitsFor(pod *v1.Pod) (reason, message string) {
	switch {
	case pod.DeletionTimestamp != nil:
		return "Terminating", ""
	case pod.Status.Phase == v1.PodSucceeded:
		return "", ""
	case pod.Status.Phase == v1.PodFailed:
		return cmp.Or(pod.Status.Reason, "Failed"), pod.Status.Message
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			return w.Reason, w.Message
		}
	}
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodReady} {
		for _, c := range pod.Status.Conditions {
			if c.Type == kind && c.Status == v1.ConditionFalse {
				return cmp.Or(c.Reason, "Not"+string(kind)), c.Message
			}
		}
	}
	if pod.Status.Phase == v1.PodPending {
		return "Pending", ""
	}
	return "", ""
}

// Write prints the report for people.
func (p *Parent) Write(w io.Writer, page Page) error {
	var b strings.Builder
	p.write(&b, page, "")
	_, err := io.WriteString(w, Legible(b.String()))
	return err
}

func (p *Parent) write(b *strings.Builder, page Page, indent string) {
	line := func(format string, args ...any) {
		text := Page{Columns: max(page.Columns-len(indent), 0)}.Wrapped(fmt.Sprintf(format, args...))
		fmt.Fprintln(b, indent+strings.ReplaceAll(text, "\n", "\n"+indent))
	}
	line("%s %s", p.Kind, strings.TrimPrefix(p.Namespace+"/"+p.Name, "/"))
	indent += "  "
	if len(p.Controllers) == 0 {
		line("No controller looks after it: `berth policy list` shows those there are.")
	}
	for i := range p.Controllers {
		for _, text := range p.Controllers[i].sentences() {
			line("%s: %s", p.Controllers[i].Policy, text)
		}
	}
	for _, pods := range p.Pods {
		text := pods.Reason
		if pods.Message != "" {
			text += ": " + pods.Message
		}
		if pods.Count == 1 {
			line("Pod %s: %s", pods.Example, text)
		} else {
			line("%d pods such as %s: %s", pods.Count, pods.Example, text)
		}
	}
	for i := range p.Children {
		p.Children[i].write(b, page, indent)
	}
}

// sentences are what there is to say of a controller.
func (c *ControllerSays) sentences() (texts []string) {
	if c.Asked == nil {
		return []string{"was not asked about it yet"}
	}
	texts = append(texts, c.Why...)
	if c.Refused != "" {
		texts = append(texts, c.Refused)
	}
	if c.Error != "" && c.Error != c.Refused {
		texts = append(texts, c.Error)
	}
	if len(texts) == 0 {
		texts = []string{"it has nothing to do"}
	}
	if c.Again != nil {
		texts[len(texts)-1] += fmt.Sprintf(" (is asked again at %s)", c.Again.Local().Format("15:04:05"))
	}
	return texts
}
