package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"
)

// stored is a store in which a test writes.
type stored struct {
	*store.Store
	t *testing.T
}

func newStored(t *testing.T) stored {
	t.Helper()
	s, err := store.Open(context.WithoutCancel(t.Context()), store.NewMemory(), kind.Codec{}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return stored{s, t}
}

func (s stored) put(resource string, o store.Object) {
	s.t.Helper()
	key := store.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
	op := store.Op{Kind: store.Create, Key: key, Object: o}
	if old, ok := s.Get(key); ok {
		o.SetUID(old.GetUID())
		op.Kind = store.Update
	}
	if _, _, err := s.Commit(s.t.Context(), op); err != nil {
		s.t.Fatal(err)
	}
}

func (s stored) remove(resource, namespace, name string) {
	s.t.Helper()
	if _, _, err := s.Commit(s.t.Context(), store.Op{Kind: store.Delete, Key: store.Key{Resource: resource, Namespace: namespace, Name: name}}); err != nil {
		s.t.Fatal(err)
	}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(began)}
}

func deployment(namespace, name string, want, ready, updated, all int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: meta(namespace, name), Spec: appsv1.DeploymentSpec{Replicas: &want},
		Status: appsv1.DeploymentStatus{ReadyReplicas: ready, UpdatedReplicas: updated, Replicas: all},
	}
}

// within is a user who may do anything in one namespace, "*" for all.
func within(namespace string) rights {
	return rights{context.Background(), &user.DefaultInfo{Name: "ada"}, allows(func(q authorizer.Attributes) bool { return namespace == "*" || q.GetNamespace() == namespace })}
}

// shown is the frame of a view, for a user.
func shown[F any](t *testing.T, l looker, r rights) *F {
	t.Helper()
	frame, err := l.frame(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if frame == nil {
		return nil
	}
	f, ok := frame.(*F)
	if !ok {
		t.Fatalf("a frame is a %T", frame)
	}
	return f
}

// lookAt is the looker of a stream with that query.
func lookAt(t *testing.T, s stored, query string) looker {
	t.Helper()
	now := began
	c := at(&now)
	c.Objects = s
	c = New(c.Config)
	l, _, leave, err := c.looker(httptest.NewRequest(http.MethodGet, streamPath+"?"+query, nil).URL.Query())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leave)
	return l
}

func TestWorkloadsTellHowFarEachHasCome(t *testing.T) {
	t.Parallel()
	stuck := deployment("a", "stuck", 3, 1, 2, 4)
	stuck.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: v1.ConditionFalse, Message: "it took too long"}}
	paused := deployment("a", "paused", 3, 1, 0, 3)
	paused.Spec.Paused = true
	unseen := deployment("a", "unseen", 1, 1, 1, 1)
	unseen.Generation = 2
	three := int32(3)
	failed := &batchv1.Job{ObjectMeta: meta("a", "failed"), Spec: batchv1.JobSpec{Completions: &three}, Status: batchv1.JobStatus{
		Succeeded: 1, Failed: 2, Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: v1.ConditionTrue, Message: "too often"}},
	}}
	for _, tt := range []struct {
		resource string
		object   store.Object
		want     workloadRow
	}{
		{"deployments.apps", deployment("a", "done", 3, 3, 3, 3), workloadRow{Kind: "Deployment", Want: 3, Ready: 3, Updated: 3, State: "Complete"}},
		{"deployments.apps", deployment("a", "rolling", 3, 3, 1, 4), workloadRow{Kind: "Deployment", Want: 3, Ready: 3, Updated: 1, Old: 3, State: "Progressing"}},
		{"deployments.apps", stuck, workloadRow{Kind: "Deployment", Want: 3, Ready: 1, Updated: 2, Old: 2, State: "Stuck", Message: "it took too long"}},
		{"deployments.apps", paused, workloadRow{Kind: "Deployment", Want: 3, Ready: 1, Old: 3, State: "Paused"}},
		{"deployments.apps", unseen, workloadRow{Kind: "Deployment", Want: 1, Ready: 1, Updated: 1, State: "Progressing", Message: "its controller has not looked at its newest spec yet"}},
		{"daemonsets.apps", &appsv1.DaemonSet{ObjectMeta: meta("a", "each"), Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 5, NumberReady: 4, UpdatedNumberScheduled: 5, CurrentNumberScheduled: 5}}, workloadRow{Kind: "DaemonSet", Want: 5, Ready: 4, Updated: 5, State: "Progressing"}},
		{"statefulsets.apps", &appsv1.StatefulSet{ObjectMeta: meta("a", "one"), Status: appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1}}, workloadRow{Kind: "StatefulSet", Want: 1, Ready: 1, Updated: 1, State: "Complete"}},
		{"statefulsets.apps", stateful("partition", ranging(2), 3, 1), workloadRow{Kind: "StatefulSet", Want: 3, Ready: 3, Updated: 1, Old: 2, State: "Complete"}},
		{"statefulsets.apps", stateful("half-way", ranging(1), 3, 1), workloadRow{Kind: "StatefulSet", Want: 3, Ready: 3, Updated: 1, Old: 2, State: "Progressing"}},
		{"statefulsets.apps", stateful("unlike", ranging(9), 3, 0), workloadRow{Kind: "StatefulSet", Want: 3, Ready: 3, Old: 3, State: "Complete"}},
		{"statefulsets.apps", stateful("by-hand", appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, 3, 0), workloadRow{Kind: "StatefulSet", Want: 3, Ready: 3, Old: 3, State: "Complete"}},
		{"daemonsets.apps", &appsv1.DaemonSet{
			ObjectMeta: meta("a", "each-by-hand"), Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}},
			Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 5, NumberReady: 5, CurrentNumberScheduled: 5, UpdatedNumberScheduled: 1},
		}, workloadRow{Kind: "DaemonSet", Want: 5, Ready: 5, Updated: 1, Old: 4, State: "Complete"}},
		{"jobs.batch", failed, workloadRow{Kind: "Job", Want: 3, Ready: 1, Old: 2, State: "Failed", Message: "too often"}},
	} {
		tt.want.Namespace, tt.want.Name, tt.want.Since = "a", tt.object.GetName(), began.UnixMilli()
		if diff := cmp.Diff(tt.want, workloadOf(tt.resource, tt.object)); diff != "" {
			t.Errorf("the row of %s (-want +got):\n%s", tt.object.GetName(), diff)
		}
	}
}

// stateful has all of its pods ready, some of them of the newest template.
func stateful(name string, strategy appsv1.StatefulSetUpdateStrategy, want, updated int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: meta("a", name), Spec: appsv1.StatefulSetSpec{Replicas: &want, UpdateStrategy: strategy},
		Status: appsv1.StatefulSetStatus{Replicas: want, ReadyReplicas: want, UpdatedReplicas: updated},
	}
}

func ranging(partition int32) appsv1.StatefulSetUpdateStrategy {
	return appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}}
}

func namesOf[T tableRow](f *tableFrame[T]) (names []string) {
	for _, row := range f.Rows {
		names = append(names, row.named())
	}
	return names
}

func TestATableFollowsWhatIsWritten(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	s.put("deployments.apps", deployment("a", "web", 1, 1, 1, 1))
	s.put("deployments.apps", deployment("b", "api", 2, 1, 2, 2))
	l := lookAt(t, s, "view=workloads&chosen=Deployment/a/web&filter=api")
	f := shown[tableFrame[workloadRow]](t, l, within("*"))
	if got := namesOf(f); !slices.Equal(got, []string{"Deployment/b/api"}) || f.All != 2 || f.Chosen == nil || f.Chosen.Name != "web" {
		t.Errorf("the first frame is %+v, want the one that matches, and the chosen one", f)
	}
	if f := shown[tableFrame[workloadRow]](t, l, within("*")); f != nil {
		t.Errorf("when nothing has changed the frame is %+v, want none", f)
	}
	s.put("deployments.apps", deployment("b", "api", 2, 2, 2, 2))
	s.put("jobs.batch", &batchv1.Job{ObjectMeta: meta("a", "api-job")})
	f = shown[tableFrame[workloadRow]](t, l, within("*"))
	if got := namesOf(f); !slices.Equal(got, []string{"Job/a/api-job", "Deployment/b/api"}) || f.Rows[1].State != "Complete" {
		t.Errorf("after two writes the frame is %+v, want what moves first", f)
	}
	s.remove("deployments.apps", "a", "web")
	if f = shown[tableFrame[workloadRow]](t, l, within("*")); f == nil || f.Chosen != nil || f.All != 2 {
		t.Errorf("after a delete the frame is %+v, want no chosen one", f)
	}
}

func TestATableIsBounded(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	for i := range maxRows + 7 {
		s.put("deployments.apps", deployment("a", fmt.Sprintf("web-%03d", i), 1, 1, 1, 1))
	}
	f := shown[tableFrame[workloadRow]](t, lookAt(t, s, "view=workloads"), within("*"))
	if len(f.Rows) != maxRows || f.Left != 7 || f.All != maxRows+7 {
		t.Errorf("%d rows, %d left of %d; want %d, 7", len(f.Rows), f.Left, f.All, maxRows)
	}
}

// What is not to be listed is in no row, no sum and no count, whichever view is asked.
func TestTablesHoldWhatMayBeListed(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	for _, namespace := range []string{"mine", "theirs"} {
		s.put("deployments.apps", deployment(namespace, namespace+"-web", 1, 1, 1, 1))
		s.put(servicesResource, serviceIn(namespace, namespace+"-svc"))
		s.put(slicesResource, sliceOf(namespace, namespace+"-svc", true, false))
		s.put(eventsResource, told(namespace, namespace+"-pod", "Scheduled", began))
	}
	for _, view := range []string{"workloads", "services", "events"} {
		l := lookAt(t, s, "view="+view+"&chosen=Deployment/theirs/theirs-web")
		for _, tt := range []struct {
			namespace    string
			mine, theirs bool
		}{{"mine", true, false}, {"*", true, true}, {"theirs", false, true}, {"nowhere", false, false}} {
			frame, err := l.frame(t.Context(), within(tt.namespace))
			data, _ := json.Marshal(frame)
			if err != nil || strings.Contains(string(data), "mine-") != tt.mine || strings.Contains(string(data), "theirs-") != tt.theirs {
				t.Errorf("%s for a user of %q: %s, %v", view, tt.namespace, data, err)
			}
		}
	}
	// A service may be listed, and its endpoints may not: their number stays unknown.
	r := within("*")
	r.auth = allows(func(q authorizer.Attributes) bool { return q.GetResource() != "endpointslices" })
	f := shown[tableFrame[serviceRow]](t, lookAt(t, s, "view=services"), r)
	if len(f.Rows) != 2 || f.Rows[0].Endpoints != 0 {
		t.Errorf("without a right to endpoints the services are %+v", f.Rows)
	}
}

func serviceIn(namespace, name string) *v1.Service {
	return &v1.Service{ObjectMeta: meta(namespace, name), Spec: v1.ServiceSpec{
		Type: v1.ServiceTypeClusterIP, ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"}, Selector: map[string]string{"app": name},
		Ports: []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP, NodePort: 30080}},
	}}
}

// sliceOf has one endpoint for each of ready.
func sliceOf(namespace, service string, ready ...bool) *discoveryv1.EndpointSlice {
	port, protocol := int32(8080), v1.ProtocolTCP
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta(namespace, service+"-x"), AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port, Protocol: &protocol}}}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	for i := range ready {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.85.0.%d", i+1)}, Conditions: discoveryv1.EndpointConditions{Ready: &ready[i]}})
	}
	return s
}

func TestServicesTellWhoAnswers(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	s.put(servicesResource, serviceIn("a", "web"))
	s.put(slicesResource, sliceOf("a", "web", true, false, true))
	s.put(servicesResource, serviceIn("b", "silent"))
	s.put(servicesResource, &v1.Service{ObjectMeta: meta("a", "alias"), Spec: v1.ServiceSpec{Type: v1.ServiceTypeExternalName, ExternalName: "example.test"}})
	f := shown[tableFrame[serviceRow]](t, lookAt(t, s, "view=services"), within("*"))
	want := []serviceRow{
		{Namespace: "b", Name: "silent", Type: "ClusterIP", Addresses: []string{"10.96.0.9"}, Ports: []string{"80/TCP, 30080 on nodes"}},
		{Namespace: "a", Name: "alias", Type: "ExternalName", Ports: []string{}, Without: "an alias of example.test"},
		{Namespace: "a", Name: "web", Type: "ClusterIP", Addresses: []string{"10.96.0.9"}, Ports: []string{"80/TCP, 30080 on nodes"}, Ready: 2, Endpoints: 3},
	}
	if diff := cmp.Diff(want, f.Rows, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the services (-want +got):\n%s", diff)
	}
}

// A pod of two families is in a slice of each, and is one endpoint.
func TestAPodOfTwoFamiliesIsCountedOnce(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	s.put(servicesResource, serviceIn("a", "web"))
	for i, of := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		slice := sliceOf("a", "web", true, false)
		if of == discoveryv1.AddressTypeIPv6 { // which lags behind
			slice = sliceOf("a", "web", true, false, true)
		}
		slice.Name, slice.AddressType = fmt.Sprint("web-", i), of
		s.put(slicesResource, slice)
	}
	f := shown[tableFrame[serviceRow]](t, lookAt(t, s, "view=services"), within("*"))
	if len(f.Rows) != 1 || f.Rows[0].Endpoints != 4 || f.Rows[0].Ready != 2 {
		t.Errorf("the services are %+v, want one with 2 of 4 endpoints ready", f.Rows)
	}
}

func TestAServicesReportIsForWhoMayListItsPods(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	s.put(servicesResource, serviceIn("a", "web"))
	s.put(slicesResource, sliceOf("a", "web", true, false))
	waiting := podOf("a", "web")
	s.put("pods", waiting)
	for _, tt := range []struct {
		name    string
		without string // the resource that may not be asked for
		want    int
		says    []string
		not     string
	}{
		{"web", "", http.StatusOK, []string{`"verdict":"Forward"`, "its pod is not ready", "it is on no node"}, "no pod of namespace"},
		{"web", "nodes", http.StatusOK, []string{`"node":""`, "its pod is not ready"}, ""},
		{"web", "pods", http.StatusForbidden, []string{"ada may not see this: it needs to list pods in the namespace a"}, "10.85"},
		{"web", "endpointslices", http.StatusForbidden, []string{"list endpointslices"}, "10.85"},
		{"none", "", http.StatusNotFound, []string{`there is no service "none"`}, ""},
		{"none", "services", http.StatusForbidden, []string{"get services"}, "there is no"},
	} {
		now := began
		c := at(&now)
		c.Objects, c.May = s, allows(func(q authorizer.Attributes) bool { return q.GetResource() != tt.without })
		r := httptest.NewRequest(http.MethodGet, servicePath+"?namespace=a&name="+tt.name, nil)
		w := httptest.NewRecorder()
		c.service(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "ada"})))
		ok := w.Code == tt.want && (tt.not == "" || !strings.Contains(w.Body.String(), tt.not))
		for _, text := range tt.says {
			ok = ok && strings.Contains(w.Body.String(), text)
		}
		if !ok {
			t.Errorf("%s without %q: %d %s; want %d, %q, and not %q", tt.name, tt.without, w.Code, w.Body, tt.want, tt.says, tt.not)
		}
	}
}

func told(namespace, object, reason string, last time.Time) *v1.Event {
	return &v1.Event{
		ObjectMeta: meta(namespace, fmt.Sprintf("%s.%s.%d", object, strings.ToLower(reason), last.Unix())), Type: v1.EventTypeNormal, Reason: reason, Message: "of " + object,
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: object}, Count: 2, LastTimestamp: metav1.NewTime(last),
	}
}

func TestEventsAreFoldedNewestFirst(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	for i := range maxExamples + 2 {
		s.put(eventsResource, told("a", fmt.Sprintf("p%d", i), "Scheduled", began.Add(time.Duration(i)*time.Minute)))
	}
	s.put(eventsResource, told("a", "p0", "Killing", began.Add(time.Hour)))
	f := shown[eventsFrame](t, lookAt(t, s, "view=events"), within("*"))
	if len(f.Folds) != 2 || f.Folds[0].Reason != "Killing" || f.Folds[1].Count != 2*(maxExamples+2) || f.Folds[1].Objects != maxExamples+2 || f.Count != 2*(maxExamples+3) {
		t.Fatalf("the folds are %+v", f)
	}
	var newest []string
	for _, e := range f.Folds[1].Newest {
		newest = append(newest, e.Object)
	}
	if want := []string{"Pod/a/p6", "Pod/a/p5", "Pod/a/p4", "Pod/a/p3", "Pod/a/p2"}; !slices.Equal(newest, want) {
		t.Errorf("the newest are %q, want %q", newest, want)
	}
	f = shown[eventsFrame](t, lookAt(t, s, "view=events&filter=Pod/a/p0"), within("*"))
	if len(f.Folds) != 2 || f.Count != 4 {
		t.Errorf("of one object the folds are %+v", f)
	}
}

// Nothing is kept once nobody looks, and who comes back sees all.
func TestNothingIsKeptForNobody(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	now := began
	c := at(&now)
	c.Objects = s
	c = New(c.Config)
	for i := range 2 {
		s.put("jobs.batch", &batchv1.Job{ObjectMeta: meta("a", fmt.Sprint("job-", i))})
		l, _, leave, err := c.looker(map[string][]string{"view": {"workloads"}})
		if err != nil {
			t.Fatal(err)
		}
		if f := shown[tableFrame[workloadRow]](t, l, within("*")); f == nil || f.All != i+1 {
			t.Errorf("look %d shows %+v", i, f)
		}
		leave()
		if c.workloads.rows != nil {
			t.Errorf("after look %d rows are kept", i)
		}
	}
}
