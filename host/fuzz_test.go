package host_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/api/berthapi"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// boundaries are the host's own routes that read what is sent: a body, a query,
// a part of the path or a header. VALUE stands for what is sent there.
var boundaries = []struct{ method, path, query, media, header string }{
	{method: "POST", path: berthapi.PlanPath, media: "application/json"},
	{method: "POST", path: berthapi.RehearsePath, media: "application/json"},
	{method: "GET", path: berthapi.DecisionsPath + "/VALUE/again"},
	{method: "GET", path: berthapi.FiguresPath + "/VALUE/logs"},
	{method: "GET", path: berthapi.FiguresPath + "/VALUE/module"},
	{method: "GET", path: "/api/v1/namespaces/default/pods/a/explain", query: "VALUE"},
	{method: "POST", path: "/berth/v1/tokens", query: "VALUE"},
	{method: "POST", path: "/apis/policy.berth.dev/v1alpha1/modules", query: "dryRun=All", media: "application/wasm", header: "VALUE"},
	{method: "POST", path: "/apis/policy.berth.dev/v1alpha1/modules", query: "dryRun=All", media: "application/json"},
	{method: "POST", path: "/apis/policy.berth.dev/v1alpha1/policies", query: "dryRun=All", media: "application/json"},
	{method: "POST", path: "/apis/policy.berth.dev/v1alpha1/profiles", query: "dryRun=All", media: "application/json"},
}

// FuzzOwnRoutes sends anything to what the host answers beside Kubernetes' API:
// each request is answered, by no error of the host's own, and it goes on.
func FuzzOwnRoutes(f *testing.F) {
	client, serving, _ := start(f, f.TempDir())
	createNode(f, client, "n1")
	create(f, client, plainPod("a"))
	bound(f, client, "a")
	cfg, err := clientcmd.BuildConfigFromFlags("", serving.Kubeconfig)
	if err != nil {
		f.Fatal(err)
	}
	caller, err := rest.HTTPClientFor(cfg)
	if err != nil {
		f.Fatal(err)
	}
	for at, sent := range map[int][]string{
		0: {
			`{"items":[{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}]}`,
			`{"items":[{"spec":{"schedulerName":"none","priority":-5,"nodeName":"n1","volumes":[{"persistentVolumeClaim":{"claimName":"x"}}]}}],"policies":[{"name":"PodFitsResources","mode":"Off"}]}`,
			`{"items":[{"spec":{"containers":[{"resources":{"requests":{"cpu":"-1","memory":"1e99"}}}],"topologySpreadConstraints":[{"maxSkew":-1}],"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]},"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"operator":"Gt","values":[]}]}]}}}}}]}`,
			`{"items":[{"metadata":{"name":"a","namespace":"default"},"status":{"phase":"Failed"}}],"policies":[{"name":"x","wasm":"AGFzbQEAAAA="}]}`,
		},
		1: {`{"policies":[{"name":"LeastRequested","weight":7,"config":{"a":1}}],"decisions":5}`, `{"policies":[{"name":"x","module":"sha256-00","entry":"y","profile":"default"}],"decisions":-1}`},
		2: {"0", "18446744073709551616", "-1"}, 3: {"PodFitsResources", "none"}, 4: {"PodFitsResources", ".."},
		5:  {"node=n1&limit=1", "limit=-1", "node=%00&limit=99999999999999999999"},
		6:  {"life=1h", "life=-1s", "life=9999999h"},
		7:  {"ed25519:0123456789abcdef0123456789abcdef=" + base64.StdEncoding.EncodeToString(make([]byte, 64)), "="},
		8:  {`{"spec":{"wasm":"AGFzbQEAAAA="}}`},
		9:  {`{"metadata":{"name":"p"},"spec":{"module":"sha256-0","entry":"e","mode":"Shadow","config":{"a":[1]},"canary":{"module":"x","share":200}}}`},
		10: {`{"metadata":{"name":"p"},"spec":{"predicates":["a","a"],"priorities":[{"name":"b","weight":-1}]}}`},
	} {
		for _, s := range sent {
			f.Add(uint8(at), s)
		}
	}
	f.Fuzz(func(t *testing.T, at uint8, sent string) {
		if len(sent) > 64<<10 {
			return // a server that has read enough hangs up, which a client may see before the answer
		}
		b := boundaries[int(at)%len(boundaries)]
		put := func(where string) string { return strings.ReplaceAll(where, "VALUE", sent) }
		body := sent
		if put(b.path)+put(b.query)+put(b.header) != b.path+b.query+b.header {
			body = "\x00asm\x01\x00\x00\x00"
		}
		where := url.URL{Scheme: "https", Host: strings.TrimPrefix(serving.URL, "https://"), Path: put(b.path), RawQuery: put(b.query)}
		r, err := http.NewRequestWithContext(t.Context(), b.method, where.String(), strings.NewReader(body))
		if err != nil {
			return // no client can send it
		}
		r.Header.Set("Content-Type", b.media)
		if b.header != "" {
			r.Header.Set("Berth-Signature", put(b.header))
		}
		answer, err := caller.Do(r)
		if err != nil && strings.Contains(err.Error(), "invalid") {
			return // as before
		}
		if err != nil {
			t.Fatalf("%s %s with %q: %v", b.method, where.String(), body, err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode >= 500 {
			t.Fatalf("%s %s with %q = %d %s, %v", b.method, where.String(), body, answer.StatusCode, text, err)
		}
	})
}
