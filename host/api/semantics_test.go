package api_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/host/api/apitest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
)

// curl is a user who believes nothing that a library tells.
type curl struct {
	*testing.T
	server *apitest.Server
	client *http.Client
	admin  kubernetes.Interface
}

func newCurl(t *testing.T, options ...apitest.Option) *curl {
	s := apitest.Start(t, options...)
	return &curl{t, s, httpClient(t, s), client(t, s, "")}
}

// ask returns an answer and its body, decoded if it is JSON.
func (c *curl) ask(method, path, body string, headers ...string) (*http.Response, map[string]any) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.server.URL+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.client.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	var in io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if in, err = gzip.NewReader(resp.Body); err != nil {
			c.Fatal(err)
		}
	}
	data, err := io.ReadAll(in)
	if err != nil {
		c.Fatal(err)
	}
	var doc map[string]any
	_ = json.Unmarshal(data, &doc) // what is no JSON has no fields
	return resp, doc
}

// at finds a field by its path, "metadata.name".
func at(doc map[string]any, path string) any {
	var value any = doc
	for name := range strings.SplitSeq(path, ".") {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[name]
	}
	return value
}

const (
	maps  = "/api/v1/namespaces/default/configmaps"
	table = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

func TestAWatchOfTablesShowsColumnsOnceAndRows(t *testing.T) {
	t.Parallel()
	c := newCurl(t)
	createPods(t, c.admin, "a", "b")
	req, err := http.NewRequestWithContext(t.Context(), "GET", c.server.URL+"/api/v1/namespaces/default/pods?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", table)
	resp, err := c.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	var columns []int
	var got []string
	for range 2 {
		if !lines.Scan() {
			t.Fatal("the watch ended")
		}
		var event struct {
			Type   string
			Object metav1.Table
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		columns = append(columns, len(event.Object.ColumnDefinitions))
		got = append(got, event.Type+" "+event.Object.Kind+" "+event.Object.APIVersion+" "+event.Object.Rows[0].Cells[0].(string))
	}
	if columns[0] < 5 || columns[1] != 0 {
		t.Errorf("columns = %v, want them in the first event alone", columns)
	}
	if diff := cmp.Diff([]string{"ADDED Table meta.k8s.io/v1 a", "ADDED Table meta.k8s.io/v1 b"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestMetadataAloneIsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	c := newCurl(t)
	createPods(t, c.admin, "a")
	_, one := c.ask("GET", "/api/v1/namespaces/default/pods/a", "", "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	if at(one, "kind") != "PartialObjectMetadata" || at(one, "apiVersion") != "meta.k8s.io/v1" || at(one, "spec") != nil || at(one, "metadata.name") != "a" {
		t.Errorf("one object = %v", one)
	}
	_, list := c.ask("GET", "/api/v1/namespaces/default/pods", "", "Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	items, _ := at(list, "items").([]any)
	if at(list, "kind") != "PartialObjectMetadataList" || len(items) != 1 || at(items[0].(map[string]any), "spec") != nil {
		t.Errorf("list = %v", list)
	}
}

func TestLongAnswersAreCompressedWhereAsked(t *testing.T) {
	t.Parallel()
	c := newCurl(t)
	big := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "big"}, Data: map[string]string{"a": strings.Repeat("x", 200<<10)}}
	if _, err := c.admin.CoreV1().ConfigMaps("default").Create(t.Context(), big, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{maps, maps + "/big"} {
		resp, doc := c.ask("GET", path, "", "Accept-Encoding", "gzip")
		if resp.Header.Get("Content-Encoding") != "gzip" || doc == nil {
			t.Errorf("%s: encoding %q, want gzip", path, resp.Header.Get("Content-Encoding"))
		}
		if resp, doc := c.ask("GET", path, ""); resp.Header.Get("Content-Encoding") != "" || doc == nil {
			t.Errorf("%s is compressed although nobody asked", path)
		}
	}
	if resp, _ := c.ask("GET", "/version", "", "Accept-Encoding", "gzip"); resp.Header.Get("Content-Encoding") != "" {
		t.Error("a short answer is compressed")
	}
}

func TestWritesKeepToWhatKubernetesPromises(t *testing.T) {
	t.Parallel()
	c := newCurl(t)
	const inJSON, cm = "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`
	is := func(what string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	resp, doc := c.ask("POST", maps+"?dryRun=All", cm, "Content-Type", inJSON)
	is("a dry run answers 201", resp.StatusCode, 201)
	is("and shows what would be", at(doc, "metadata.uid") != nil, true)
	resp, _ = c.ask("GET", maps+"/a", "")
	is("but leaves nothing", resp.StatusCode, 404)

	_, doc = c.ask("POST", maps, `{"metadata":{"generateName":"gen-"}}`, "Content-Type", inJSON)
	name, _ := at(doc, "metadata.name").(string)
	is("a generated name is the prefix and five letters", len(name) == 9 && strings.HasPrefix(name, "gen-"), true)

	_, made := c.ask("POST", maps, cm, "Content-Type", inJSON)
	_, same := c.ask("PUT", maps+"/a", cm, "Content-Type", inJSON)
	is("an update of nothing keeps the version", at(same, "metadata.resourceVersion"), at(made, "metadata.resourceVersion"))

	resp, doc = c.ask("PUT", maps+"/a", `{"metadata":{"name":"a","resourceVersion":"1"}}`, "Content-Type", inJSON)
	is("an update of an old version", []any{resp.StatusCode, at(doc, "reason")}, []any{409, "Conflict"})
	const anyVersion = `{"metadata":{"resourceVersion":"0","annotations":{"to":"%s"}}}`
	resp, doc = c.ask("PUT", maps+"/a", fmt.Sprintf(anyVersion, "put"), "Content-Type", inJSON)
	is("an update of version 0, which is any", []any{resp.StatusCode, at(doc, "metadata.annotations.to")}, []any{200, "put"})
	resp, doc = c.ask("PATCH", maps+"/a", fmt.Sprintf(anyVersion, "patch"), "Content-Type", "application/merge-patch+json")
	is("a patch of version 0", []any{resp.StatusCode, at(doc, "metadata.annotations.to")}, []any{200, "patch"})
	resp, _ = c.ask("POST", maps+"?dryRun=All", `{"metadata":{"name":"zero","resourceVersion":"0"}}`, "Content-Type", inJSON)
	is("a creation with version 0", resp.StatusCode, 201)
	resp, doc = c.ask("DELETE", maps+"/a", `{"preconditions":{"uid":"x"}}`, "Content-Type", inJSON)
	is("a deletion of another object", []any{resp.StatusCode, at(doc, "reason")}, []any{409, "Conflict"})
	resp, doc = c.ask("DELETE", maps+"/a", `{"preconditions":{"resourceVersion":"1"}}`, "Content-Type", inJSON)
	is("a deletion of an old version", []any{resp.StatusCode, at(doc, "reason")}, []any{409, "Conflict"})
	for _, precondition := range []string{"uid=x", "resourceVersion=1"} {
		resp, doc = c.ask("DELETE", maps+"/a?"+precondition, "")
		is("a deletion with "+precondition, []any{resp.StatusCode, at(doc, "reason")}, []any{409, "Conflict"})
	}
	resp, doc = c.ask("DELETE", maps+"/a?dryRun=All", "")
	is("a deletion in a dry run", []any{resp.StatusCode, at(doc, "status")}, []any{200, "Success"})
	resp, doc = c.ask("DELETE", maps+"/a", "")
	is("a deletion names what is gone", []any{resp.StatusCode, at(doc, "kind"), at(doc, "details.name"), at(doc, "details.kind"), at(doc, "details.uid")},
		[]any{200, "Status", "a", "configmaps", at(made, "metadata.uid")})

	resp, _ = c.ask("POST", maps, `{"metadata":{"name":"b"},"zzz":1}`, "Content-Type", inJSON)
	is("an unknown field is warned of", resp.Header.Get("Warning"), `299 - "unknown field \"zzz\""`)
	resp, doc = c.ask("POST", maps, `{"metadata":{"name":"b"}}`, "Content-Type", inJSON)
	is("a second creation", []any{resp.StatusCode, at(doc, "reason"), at(doc, "message"), at(doc, "details.name")},
		[]any{409, "AlreadyExists", `configmaps "b" already exists`, "b"})
	resp, _ = c.ask("DELETE", maps+"?resourceVersion=1&resourceVersionMatch=NotOlderThan&dryRun=All", "")
	is("a deletion of a list that is newer than asked", resp.StatusCode, 200)
	_, doc = c.ask("DELETE", maps+"?labelSelector=none%3Dsuch", "")
	items, _ := at(doc, "items").([]any)
	is("a deletion of what a selector picks", []any{at(doc, "kind"), len(items)}, []any{"ConfigMapList", 0})
	resp, _ = c.ask("GET", maps+"/b", "")
	is("spares the rest", resp.StatusCode, 200)
	resp, _ = c.ask("HEAD", maps+"/b", "")
	is("a HEAD", resp.StatusCode, 405)
}

func TestDeletionsTellHowTheyGo(t *testing.T) {
	t.Parallel()
	c := newCurl(t)
	for policy, want := range map[string][]any{
		"Foreground": {200, "foregroundDeletion"},
		"Orphan":     {200, "orphan"},
	} {
		name := strings.ToLower(policy)
		c.ask("POST", maps, `{"metadata":{"name":"`+name+`"}}`, "Content-Type", "application/json")
		resp, doc := c.ask("DELETE", maps+"/"+name, `{"propagationPolicy":"`+policy+`"}`, "Content-Type", "application/json")
		finalizers, _ := at(doc, "metadata.finalizers").([]any)
		if len(finalizers) != 1 || resp.StatusCode != want[0] || finalizers[0] != want[1] || at(doc, "metadata.deletionTimestamp") == nil {
			t.Errorf("%s: %d %v, want %v", policy, resp.StatusCode, doc, want)
		}
	}
}

func TestBooleansAreReadAsKubernetesReadsThem(t *testing.T) {
	t.Parallel()
	c := newCurl(t)
	for value, want := range map[string]bool{"": true, "True": true, "0": false, "false": false, "False": false} {
		resp, doc := c.ask("GET", maps+"?timeoutSeconds=1&watch="+value, "")
		if watched := at(doc, "kind") == nil; resp.StatusCode != 200 || watched != want {
			t.Errorf("watch=%s: %d, a watch: %t, want %t", value, resp.StatusCode, watched, want)
		}
	}
	apply := func(manager, value string) int {
		resp, _ := c.ask("PATCH", maps+"/a?fieldManager="+manager+"&force=False", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"`+value+`"}}`,
			"Content-Type", "application/apply-patch+yaml")
		return resp.StatusCode
	}
	if got := []int{apply("one", "v"), apply("two", "w")}; !cmp.Equal(got, []int{201, 409}) {
		t.Errorf("applies of two managers with force=False = %v, want 201 and 409", got)
	}
}

func TestNothingIsMadeByApplyOrPutWithoutTheRightToCreate(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	c := newCurl(t, apitest.With(func(p *apitest.Parts) {
		p.API.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() == "create" {
				asked.Add(1)
				return authorizer.DecisionNoOpinion, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		})
	}))
	const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	for _, w := range []struct{ method, path, query, body, media string }{
		{"PATCH", maps + "/a", "?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, "application/apply-patch+yaml"},
		{"PUT", leases + "/a", "", `{"metadata":{"name":"a"},"spec":{}}`, "application/json"},
	} {
		asked.Store(0)
		resp, doc := c.ask(w.method, w.path+w.query, w.body, "Content-Type", w.media)
		message, _ := at(doc, "message").(string)
		if resp.StatusCode != 403 || !strings.Contains(message, "cannot create resource") || asked.Load() != 1 {
			t.Errorf("%s %s: %d %q after %d questions, want 403 after one", w.method, w.path, resp.StatusCode, message, asked.Load())
		}
		if resp, _ := c.ask("GET", w.path, ""); resp.StatusCode != 404 {
			t.Errorf("%s %s leaves something: %d", w.method, w.path, resp.StatusCode)
		}
	}
}
