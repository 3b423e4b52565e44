package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/apitest"
	"github.com/berth-dev/berth/host/store"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// events reads n events as "TYPE name".
func events(t *testing.T, w watch.Interface, n int) []string {
	t.Helper()
	var got []string
	for range n {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatalf("the watch ended after %v", got)
			}
			got = append(got, eventText(e))
		case <-time.After(time.Minute):
			t.Fatalf("no more events after %v", got)
		}
	}
	return got
}

func eventText(e watch.Event) string {
	switch obj := e.Object.(type) {
	case *metav1.Status:
		return fmt.Sprintf("%s %s %d", e.Type, obj.Reason, obj.Code)
	case *corev1.Pod:
		if e.Type == watch.Bookmark {
			return fmt.Sprintf("%s %s", e.Type, obj.Annotations[metav1.InitialEventsAnnotationKey])
		}
		return fmt.Sprintf("%s %s", e.Type, obj.Name)
	}
	return fmt.Sprintf("%s %T", e.Type, e.Object)
}

func relabel(t *testing.T, c kubernetes.Interface, name, app string) {
	t.Helper()
	_, err := c.CoreV1().Pods("default").Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"`+app+`"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnObjectThatCeasesToMatchIsDeletedForTheWatcher(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			s := apitest.Start(t)
			c := client(t, s, contentType)
			createPods(t, c, "a", "b")
			w, err := c.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=a"})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			got := events(t, w, 1)
			relabel(t, c, "a", "x")
			relabel(t, c, "b", "a")
			relabel(t, c, "b", "y")
			got = append(got, events(t, w, 3)...)
			if diff := cmp.Diff([]string{"ADDED a", "DELETED a", "ADDED b", "DELETED b"}, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWatchBeginsWhereItIsTold(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "")
	createPods(t, c, "a")
	list, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	createPods(t, c, "b")
	without := func(version string) metav1.ListOptions {
		return metav1.ListOptions{ResourceVersion: version, SendInitialEvents: ptr.To(false), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			AllowWatchBookmarks: true, TimeoutSeconds: ptr.To[int64](1)}
	}
	for name, o := range map[string]struct {
		opts metav1.ListOptions
		want []string
	}{
		"without a version: at all that is there": {metav1.ListOptions{}, []string{"ADDED a", "ADDED b"}},
		"at version 0: the same":                  {metav1.ListOptions{ResourceVersion: "0"}, []string{"ADDED a", "ADDED b"}},
		"at a version: after it":                  {metav1.ListOptions{ResourceVersion: list.ResourceVersion}, []string{"ADDED b"}},
		"with initial events: a bookmark ends them": {metav1.ListOptions{SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, []string{"ADDED a", "ADDED b", "BOOKMARK true"}},
		"without initial events: now":                        {without(""), []string{"BOOKMARK "}},
		"without initial events, at version 0: now":          {without("0"), []string{"BOOKMARK "}},
		"without initial events, at a version: after it too": {without(list.ResourceVersion), []string{"ADDED b", "BOOKMARK "}},
		"a version that is still to come":                    {metav1.ListOptions{ResourceVersion: "999999"}, []string{"ERROR Timeout 504"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, err := c.CoreV1().Pods("default").Watch(t.Context(), o.opts)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			if diff := cmp.Diff(o.want, events(t, w, len(o.want))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWatchEndsWithABookmarkAtItsTimeout(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "")
	createPods(t, c, "a")
	w, err := c.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: ptr.To[int64](1), AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if diff := cmp.Diff([]string{"ADDED a", "BOOKMARK "}, events(t, w, 2)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if e, ok := <-w.ResultChan(); ok {
		t.Errorf("after the timeout: %v", e)
	}
}

func TestWhatIsCompactedIsExpired(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, apitest.WithStore(store.Options{MaxEvents: 4}))
	c := client(t, s, "")
	createPods(t, c, "a", "b", "c")
	first, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		relabel(t, c, "a", strconv.Itoa(i))
	}
	w, err := c.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if diff := cmp.Diff([]string{"ERROR Expired 410"}, events(t, w, 1)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	_, err = c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact, LabelSelector: "a=b"})
	if err != nil && !apierrors.IsResourceExpired(err) {
		t.Errorf("list at a revision that may be gone: %v", err)
	}
}

func TestAnAgentIsWokenByItsOwnPods(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/vnd.kubernetes.protobuf")
	createPods(t, c, "a", "b")
	w, err := c.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, b := range []struct{ pod, node string }{{"a", "n2"}, {"b", "n1"}} {
		bind := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: b.pod}, Target: corev1.ObjectReference{Kind: "Node", Name: b.node}}
		if err := c.CoreV1().Pods("default").Bind(t.Context(), bind, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"ADDED b"}, events(t, w, 1)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	list, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
	if err != nil || len(list.Items) != 1 || !strings.HasPrefix(list.Items[0].Name, "b") {
		t.Errorf("list = %v, %v", list, err)
	}
}

// watchOf begins a watch of a list, which ends with the test.
func watchOf(t *testing.T, c *http.Client, list string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, list+"?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// seats counts what is open.
type seats struct{ held, released atomic.Int64 }

func (*seats) Enter(context.Context, user.Info, *apirequest.RequestInfo) (func(), error) {
	return func() {}, nil
}

func (s *seats) Hold(user.Info) (func(), func(func()), error) {
	s.held.Add(1)
	return func() { s.released.Add(1) }, func(write func()) { write() }, nil
}

func TestAWatchIsFollowedHoweverItIsSpelled(t *testing.T) {
	t.Parallel()
	open, told := &seats{}, make(chan *api.Audited, 10)
	s := apitest.Start(t, apitest.With(func(p *apitest.Parts) {
		p.API.Fairness = open
		p.API.Audit = func(a *api.Audited) {
			if a.About.Verb == "watch" {
				told <- a
			}
		}
	}))
	createPods(t, client(t, s, ""), "a")
	for i, spelled := range []string{"watch=1", "w%61tch=1"} {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v1/namespaces/default/pods?"+spelled, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := httpClient(t, s).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		line := make([]byte, 32)
		if _, err := io.ReadFull(resp.Body, line); err != nil || !strings.HasPrefix(string(line), `{"type":"ADDED"`) {
			t.Fatalf("%s: first event = %q, %v", spelled, line, err)
		}
		leave()
		select {
		case <-told:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the audit log was told of no watch", spelled)
		}
		if held, released := open.held.Load(), open.released.Load(); held != int64(i+1) || held != released || len(told) > 0 {
			t.Errorf("%s: %d held, %d released, %d told once more", spelled, held, released, len(told))
		}
	}
}

func TestAnIdleWatchIsNotGivenUp(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := httpClient(t, s)
	c.Timeout = 0
	open := func() *http.Response { return watchOf(t, c, s.URL+"/api/v1/namespaces/default/configmaps") }
	idle := open()
	if _, err := client(t, s, "").CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 32)
	if _, err := io.ReadFull(idle.Body, line); err != nil || !strings.HasPrefix(string(line), `{"type":"ADDED"`) {
		t.Fatalf("first event = %q, %v", line, err)
	}
	// Nothing is written for a while, which must not end the stream.
	read := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, idle.Body); read <- err }()
	select {
	case err := <-read:
		t.Errorf("an idle watch ended: %v", err)
	case <-time.After(api.WriteTime + time.Second):
	}
}
