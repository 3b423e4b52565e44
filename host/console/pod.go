package console

import (
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/berth-dev/berth/host/store"
)

// podAnswer is a pod's containers, and what the user may do with them.
type podAnswer struct {
	Node       string          `json:"node,omitempty"`
	Phase      string          `json:"phase"`
	Containers []containerLine `json:"containers"`
	Logs       bool            `json:"logs"`
	Exec       bool            `json:"exec"`
}

type containerLine struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Restarts int32  `json:"restarts"`
}

// pod answers GET /console/v1/pod?namespace=&name= to who may get it.
func (c *Console) pod(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	namespace, name := query.Get("namespace"), query.Get("name")
	who, _ := request.UserFrom(r.Context())
	rights := rights{r.Context(), who, c.May}
	of := func(verb, part string) question {
		return question{verb: verb, resource: "pods", subresource: part, namespace: namespace, name: name}
	}
	if !rights.may(of("get", "")) {
		http.Error(w, fmt.Sprintf("%s may not see this: it needs to get pods in the namespace %s", who.GetName(), namespace), http.StatusForbidden)
		return
	}
	o, _ := c.Objects.Get(store.Key{Resource: "pods", Namespace: namespace, Name: name})
	pod, ok := o.(*v1.Pod)
	if !ok {
		http.Error(w, fmt.Sprintf("there is no pod %q in the namespace %q", name, namespace), http.StatusNotFound)
		return
	}
	session, _ := c.session(r)
	a := podAnswer{Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase), Containers: containersOf(pod)}
	a.Logs = rights.may(of("get", "log"))
	a.Exec = session.Write && rights.all([]question{of("get", "exec"), of("create", "exec")})
	answer(w, a)
}

// containersOf has those first that run beside each other.
func containersOf(pod *v1.Pod) []containerLine {
	states := map[string]v1.ContainerStatus{}
	for _, list := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for _, status := range list {
			states[status.Name] = status
		}
	}
	lines := []containerLine{}
	add := func(name string) {
		lines = append(lines, containerLine{name, containerState(states[name].State), states[name].RestartCount})
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].Name)
	}
	return lines
}

func containerState(s v1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("ended with %d", s.Terminated.ExitCode)
	case s.Waiting != nil && s.Waiting.Reason != "":
		return s.Waiting.Reason
	}
	return "waiting"
}
