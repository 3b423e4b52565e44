package api_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/apitest"
	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/api/flowcontrol"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/wire"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
)

// httpClient trusts the server.
func httpClient(t testing.TB, s *apitest.Server) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func bomb(levels, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a0: &a0 [%s]\n", strings.Repeat("x,", width))
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), width))
	}
	return b.String()
}

func TestBadInputGetsAReasonAtOnce(t *testing.T) {
	s := apitest.Start(t)
	c := httpClient(t, s)
	here := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Data: map[string]string{"a": "1"}}
	if _, err := client(t, s, "").CoreV1().ConfigMaps("default").Create(t.Context(), here, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	createPods(t, client(t, s, ""), "here")
	const configMaps = "/api/v1/namespaces/default/configmaps"
	const head = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},`
	deep := strings.Repeat("[", 10_000)
	for name, r := range map[string]struct {
		method, path, media, body string
		code                      int
		reason                    string
	}{
		"a body beyond the limit":            {"POST", configMaps, "application/json", head + `"data":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`, 413, "RequestEntityTooLarge"},
		"nesting in JSON":                    {"POST", configMaps, "application/json", head + `"data":` + deep, 400, "BadRequest"},
		"nesting in an unknown field":        {"POST", configMaps + "?fieldValidation=Ignore", "application/json", head + `"zzz":` + deep + strings.Repeat("]", 10_000) + "}", 400, "BadRequest"},
		"nesting in YAML":                    {"POST", configMaps, "application/yaml", "a: " + deep, 400, "BadRequest"},
		"nesting in YAML by blocks":          {"POST", configMaps, "application/yaml", strings.Repeat("- ", 10_000) + "a", 400, "BadRequest"},
		"a bomb of aliases":                  {"POST", configMaps, "application/yaml", bomb(12, 30), 400, "BadRequest"},
		"a small bomb of aliases":            {"POST", configMaps, "application/yaml", bomb(9, 9), 400, "BadRequest"},
		"a bomb in an apply":                 {"PATCH", configMaps + "/x?fieldManager=t", "application/apply-patch+yaml", bomb(12, 30), 400, "BadRequest"},
		"nesting in a merge patch":           {"PATCH", configMaps + "/here", "application/merge-patch+json", strings.Repeat(`{"a":`, 10_001), 400, "BadRequest"},
		"nesting that a merge patch closes":  {"PATCH", configMaps + "/here", "application/merge-patch+json", `{"data":` + strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_001), 400, "BadRequest"},
		"nesting in a strategic patch":       {"PATCH", configMaps + "/here", "application/strategic-merge-patch+json", `{"data":` + strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_001), 400, "BadRequest"},
		"a patch that is deep and long":      {"PATCH", configMaps + "/here", "application/merge-patch+json", `{"data":` + strings.Repeat(`{"a":`, 900) + `"` + strings.Repeat("x", 2<<20) + `"` + strings.Repeat("}", 901), 422, "Invalid"},
		"a strategic patch that is so":       {"PATCH", configMaps + "/here", "application/strategic-merge-patch+json", `{"data":` + strings.Repeat(`{"a":`, 900) + `"` + strings.Repeat("x", 2<<20) + `"` + strings.Repeat("}", 901), 422, "Invalid"},
		"a JSON patch that is so":            {"PATCH", configMaps + "/here", "application/json-patch+json", `[{"op":"add","path":"/data/b","value":` + strings.Repeat(`{"a":`, 900) + `"` + strings.Repeat("x", 2<<20) + `"` + strings.Repeat("}", 900) + `}]`, 422, "Invalid"},
		"a strategic patch of many parts":    {"PATCH", "/api/v1/namespaces/default/pods/here", "application/strategic-merge-patch+json", `{"spec":{"containers":[` + parts(60_000) + `]}}`, 413, "RequestEntityTooLarge"},
		"nesting in a JSON patch":            {"PATCH", configMaps + "/here", "application/json-patch+json", `[{"op":"add","path":"/data/b","value":` + deep + strings.Repeat("]", 10_000) + `}]`, 400, "BadRequest"},
		"nesting in an apply":                {"PATCH", configMaps + "/here?fieldManager=t", "application/apply-patch+yaml", "data: " + deep, 400, "BadRequest"},
		"nesting in delete options":          {"DELETE", configMaps + "/here", "application/json", `{"preconditions":` + deep, 400, "BadRequest"},
		"groups that nest in protobuf":       {"POST", configMaps, "application/vnd.kubernetes.protobuf", "k8s\x00\x12\xe8\x07" + strings.Repeat("\x7b", 1000), 400, "BadRequest"},
		"a JSON patch that copies itself":    {"PATCH", configMaps + "/here", "application/json-patch+json", copies(40), 422, "Invalid"},
		"keys given twice in YAML":           {"POST", configMaps + "?fieldValidation=Strict", "application/yaml", "metadata: {name: x}\ndata: {a: b}\ndata: {a: c}\n", 400, "BadRequest"},
		"keys given twice in a patch":        {"PATCH", configMaps + "/here?fieldValidation=Strict", "application/merge-patch+json", `{"data":{"a":"1","a":"2"}}`, 422, "Invalid"},
		"not a number in YAML":               {"POST", configMaps, "application/yaml", "metadata: {name: x, generation: .nan}", 400, "BadRequest"},
		"a number beyond all":                {"POST", configMaps, "application/json", `{"metadata":{"name":"x","generation":1e999}}`, 400, "BadRequest"},
		"NUL in the middle of JSON":          {"POST", configMaps, "application/json", head + "\x00}", 400, "BadRequest"},
		"NUL in YAML":                        {"POST", configMaps, "application/yaml", "metadata: {name: \x00}", 400, "BadRequest"},
		"NUL in a path":                      {"GET", configMaps + "/a%00b", "", "", 404, "NotFound"},
		"NUL in a selector":                  {"GET", configMaps + "?labelSelector=a%00b", "", "", 400, "BadRequest"},
		"no UTF-8 in YAML":                   {"POST", configMaps, "application/yaml", "metadata: {name: x}\ndata: {a: \"\xff\"}", 400, "BadRequest"},
		"no UTF-8 in protobuf":               {"POST", configMaps, "application/vnd.kubernetes.protobuf", protobufText(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"a": "\xff\xfe"}}), 400, "BadRequest"},
		"no UTF-8 in a protobuf key":         {"POST", configMaps, "application/vnd.kubernetes.protobuf", protobufText(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{"\xc3\x28": "b"}}}), 400, "BadRequest"},
		"no UTF-8 in a patch":                {"PATCH", configMaps + "/here", "application/merge-patch+json", "{\"data\":{\"a\":\"\xff\"}}", 400, "BadRequest"},
		"no UTF-8 in a name":                 {"GET", configMaps + "/%ff", "", "", 404, "NotFound"},
		"a body that is compressed":          {"POST", configMaps, "application/json", "\x1f\x8b\x08\x00\x00", 400, "BadRequest"},
		"keys given twice":                   {"POST", configMaps + "?fieldValidation=Strict", "application/json", head + `"data":{"a":"1"},"data":{"a":"2"}}`, 400, "BadRequest"},
		"not a number":                       {"POST", configMaps, "application/json", head + `"data":{"a":NaN}}`, 400, "BadRequest"},
		"NUL in a name":                      {"POST", configMaps, "application/json", `{"metadata":{"name":"a\u0000b"}}`, 422, "Invalid"},
		"bytes that are no UTF-8":            {"POST", configMaps, "application/json", head + "\"data\":{\"a\":\"\xff\xfe\"}}", 400, "BadRequest"},
		"an unknown content type":            {"POST", configMaps, "text/html", "<p>", 415, "UnsupportedMediaType"},
		"a content type that is none":        {"POST", configMaps, ";;;", "{}", 415, "UnsupportedMediaType"},
		"protobuf that is cut off":           {"POST", configMaps, "application/vnd.kubernetes.protobuf", "k8s\x00\x0a\x0f\x0a\x02v1\x12\x09Conf", 400, "BadRequest"},
		"protobuf without its prefix":        {"POST", configMaps, "application/vnd.kubernetes.protobuf", "hello", 400, "BadRequest"},
		"protobuf for a kind without":        {"POST", "/apis/policy.berth.dev/v1alpha1/policies", "application/vnd.kubernetes.protobuf", "k8s\x00\x0a\x02\x0a\x00\x12\x00", 415, "UnsupportedMediaType"},
		"an empty body":                      {"POST", configMaps, "application/json", "", 400, "BadRequest"},
		"another kind":                       {"POST", configMaps, "application/json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`, 400, "BadRequest"},
		"another version":                    {"POST", configMaps, "application/json", `{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"x"}}`, 400, "BadRequest"},
		"a type that doesn't fit":            {"POST", configMaps, "application/json", `{"metadata":{"name":7}}`, 400, "BadRequest"},
		"no name":                            {"POST", configMaps, "application/json", `{"metadata":{}}`, 422, "Invalid"},
		"a version on creation":              {"POST", configMaps, "application/json", `{"metadata":{"name":"x","resourceVersion":"5"}}`, 400, "BadRequest"},
		"another namespace":                  {"POST", configMaps, "application/json", `{"metadata":{"name":"x","namespace":"other"}}`, 400, "BadRequest"},
		"a namespace that isn't there":       {"POST", "/api/v1/namespaces/none/configmaps", "application/json", `{"metadata":{"name":"x"}}`, 404, "NotFound"},
		"a bad dryRun":                       {"POST", configMaps + "?dryRun=Maybe", "application/json", `{"metadata":{"name":"x"}}`, 422, "Invalid"},
		"a bad fieldValidation":              {"POST", configMaps + "?fieldValidation=Perhaps", "application/json", `{"metadata":{"name":"x"}}`, 422, "Invalid"},
		"a bad field manager":                {"POST", configMaps + "?fieldManager=" + strings.Repeat("x", 200), "application/json", `{"metadata":{"name":"x"}}`, 422, "Invalid"},
		"an apply without a manager":         {"PATCH", configMaps + "/x", "application/apply-patch+yaml", "apiVersion: v1\nkind: ConfigMap\n", 422, "Invalid"},
		"an apply that is no object":         {"PATCH", configMaps + "/x?fieldManager=t", "application/apply-patch+yaml", "- a", 400, "BadRequest"},
		"a patch of no known type":           {"PATCH", configMaps + "/x", "application/json", "{}", 415, "UnsupportedMediaType"},
		"a patch that is no JSON":            {"PATCH", configMaps + "/x", "application/merge-patch+json", "{", 400, "BadRequest"},
		"a patch of too many operations":     {"PATCH", configMaps + "/x", "application/json-patch+json", "[" + strings.Repeat(`{"op":"test","path":"/a","value":1},`, 10_001) + `{"op":"test","path":"/a","value":1}]`, 413, "RequestEntityTooLarge"},
		"a label selector without end":       {"GET", configMaps + "?labelSelector=" + strings.Repeat("%21a,", 30_000) + "a", "", "", 400, "BadRequest"},
		"a pod of many parts":                {"POST", "/api/v1/namespaces/default/pods", "application/json", `{"metadata":{"name":"many"},"spec":{"containers":[` + parts(90_000) + `]}}`, 422, "Invalid"},
		"a pod of parts without end":         {"POST", "/api/v1/namespaces/default/pods", "application/json", `{"metadata":{"name":"many"},"spec":{"containers":[` + strings.Repeat("{},", 1_000_000) + `{}]}}`, 400, "BadRequest"},
		"a pod of protobuf without end":      {"POST", "/api/v1/namespaces/default/pods", "application/vnd.kubernetes.protobuf", manyContainers(1_200_000), 400, "BadRequest"},
		"a pod of many parts in a part":      {"POST", "/api/v1/namespaces/default/pods", "application/json", `{"metadata":{"name":"many"},"spec":{"containers":[{"env":[` + parts(90_000) + `]}]}}`, 422, "Invalid"},
		"a service of many ports":            {"POST", "/api/v1/namespaces/default/services", "application/json", `{"metadata":{"name":"many"},"spec":{"ports":[` + parts(90_000) + `]}}`, 422, "Invalid"},
		"an apply of many parts":             {"PATCH", "/api/v1/namespaces/default/pods/here?fieldManager=t", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[` + parts(60_000) + `]}}`, 422, "Invalid"},
		"a merge of many parts":              {"PATCH", "/api/v1/namespaces/default/pods/here", "application/merge-patch+json", `{"spec":{"containers":[` + parts(90_000) + `]}}`, 422, "Invalid"},
		"many finalizers":                    {"POST", configMaps + "?fieldManager=t", "application/json", `{"metadata":{"name":"many","finalizers":[` + strings.Repeat(`"a/b",`, 90_000) + `"a/b"]}}`, 422, "Invalid"},
		"many keys":                          {"POST", configMaps + "?fieldManager=t", "application/json", head + `"data":{` + keys(90_000) + `}}`, 422, "Invalid"},
		"many keys in an apply":              {"PATCH", configMaps + "/here?fieldManager=t", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","data":{` + keys(90_000) + `}}`, 422, "Invalid"},
		"a bad label selector":               {"GET", configMaps + "?labelSelector=%21%21", "", "", 400, "BadRequest"},
		"a field that cannot select":         {"GET", configMaps + "?fieldSelector=data.x%3D1", "", "", 400, "BadRequest"},
		"a field selector that is none":      {"GET", configMaps + "?fieldSelector=%3D%3D%3D", "", "", 400, "BadRequest"},
		"a continue token that is none":      {"GET", configMaps + "?continue=xyz", "", "", 400, "BadRequest"},
		"a forged continue token":            {"GET", configMaps + "?continue=eyJydiI6OTk5OTk5LCJhZnRlciI6ImEvYiJ9", "", "", 400, "BadRequest"},
		"a limit that is no number":          {"GET", configMaps + "?limit=ten", "", "", 400, "BadRequest"},
		"a negative limit":                   {"GET", configMaps + "?limit=-1", "", "", 400, "BadRequest"},
		"a version that is no number":        {"GET", configMaps + "?resourceVersion=abc", "", "", 400, "BadRequest"},
		"a version that is still to come":    {"GET", configMaps + "?resourceVersion=99999999", "", "", 504, "Timeout"},
		"a match without a version":          {"GET", configMaps + "?resourceVersionMatch=Exact", "", "", 422, "Invalid"},
		"initial events without a match":     {"GET", configMaps + "?watch=1&sendInitialEvents=true", "", "", 422, "Invalid"},
		"a watch from a version of letters":  {"GET", configMaps + "?watch=1&resourceVersion=x", "", "", 400, "BadRequest"},
		"a kind that isn't served":           {"GET", "/apis/apps/v1/namespaces/default/nosuchs", "", "", 404, "NotFound"},
		"a version that isn't served":        {"GET", "/apis/apps/v9/deployments", "", "", 404, "NotFound"},
		"a method that isn't there":          {"PUT", configMaps, "application/json", "{}", 405, "MethodNotAllowed"},
		"a path upwards":                     {"GET", "/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets", "", "", 404, "NotFound"},
		"a path upwards in full":             {"GET", "/api/v1/namespaces/default/configmaps/%2e%2e/secrets/x", "", "", 404, "NotFound"},
		"a path to a file":                   {"GET", "/openapi/v3/..%2f..%2f..%2fetc%2fpasswd", "", "", 404, "NotFound"},
		"a name that is a path":              {"POST", configMaps, "application/json", `{"metadata":{"name":"../../x"}}`, 422, "Invalid"},
		"a namespace that is a path":         {"POST", "/api/v1/namespaces/..%2fdefault/configmaps", "application/json", `{"metadata":{"name":"x"}}`, 404, "NotFound"},
		"a name that ends in a percent sign": {"GET", configMaps + "/%25", "", "", 404, "NotFound"},
		"an answer that nobody can give":     {"GET", configMaps + "#accept=image/png", "", "", 406, "NotAcceptable"},
		"a table in protobuf":                {"GET", configMaps + "#accept=application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", "", "", 406, "NotAcceptable"},
		"delete options of no kind":          {"DELETE", configMaps + "/x", "application/json", "[1]", 400, "BadRequest"},
		"a bad propagation policy":           {"DELETE", configMaps + "/x?propagationPolicy=Sideways", "", "", 422, "Invalid"},
		"a grace that is no number":          {"DELETE", configMaps + "/x?gracePeriodSeconds=soon", "", "", 400, "BadRequest"},
		"an eviction of another pod":         {"POST", "/api/v1/namespaces/default/pods/a/eviction", "application/json", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"b"}}`, 400, "BadRequest"},
		"a binding to nothing":               {"POST", "/api/v1/namespaces/default/pods/a/binding", "application/json", `{"metadata":{"name":"a"}}`, 400, "BadRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			path, accept, _ := strings.Cut(r.path, "#accept=")
			begun := time.Now()
			code, status := send(t, c, r.method, s.URL+path, r.media, accept, r.body)
			took := time.Since(begun)
			if code != r.code || !strings.Contains(status, `"reason":"`+r.reason+`"`) {
				t.Errorf("%s %s = %d %s, want %d %s", r.method, path, code, clip(status), r.code, r.reason)
			}
			if !strings.Contains(status, `"kind":"Status"`) || !strings.Contains(status, `"message":"`) {
				t.Errorf("the answer says no more than %s", clip(status))
			}
			// What went wrong took minutes. The limit of 100 ms is for a machine
			// that is idle, and not for a race detector.
			if took > 20*time.Second {
				t.Errorf("the answer took %v", took)
			}
		})
	}
}

// copies is a JSON patch that doubles what it has over and over.
func copies(n int) string {
	ops := []string{`{"op":"add","path":"/data/x","value":"` + strings.Repeat("x", 1<<10) + `"}`}
	for i := range n {
		ops = append(ops, fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/y%d"}`, i))
	}
	return "[" + strings.Join(ops, ",") + "]"
}

// parts are parts of a list that are merged by name.
func parts(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"name":"c%d"}`, i)
	}
	return strings.Join(all, ",")
}

// keys are entries of a map.
func keys(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"k%d":""`, i)
	}
	return strings.Join(all, ",")
}

// manyContainers is a pod in protobuf whose containers take two bytes each.
func manyContainers(n int) string {
	spec := strings.Repeat("\x12\x00", n)
	pod := append([]byte{0x12}, binary.AppendUvarint(nil, uint64(len(spec)))...)
	return string(wire.Envelope(corev1.SchemeGroupVersion.WithKind("Pod"), append(pod, spec...)))
}

// protobufText is an object as a client would send it.
func protobufText(t *testing.T, obj *corev1.ConfigMap) string {
	t.Helper()
	data, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(wire.Envelope(corev1.SchemeGroupVersion.WithKind("ConfigMap"), data))
}

func clip(s string) string {
	if len(s) > 600 {
		return s[:600] + "…"
	}
	return s
}

func send(t *testing.T, c *http.Client, method, target, media, accept, body string) (int, string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, u.String(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func TestAPanicBecomesAnAnswer(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, apitest.With(func(p *apitest.Parts) {
		p.API.Routes = panicking
	}))
	code, status := send(t, httpClient(t, s), "GET", s.URL+"/boom", "", "", "")
	if code != 500 || strings.Contains(status, "secret") {
		t.Errorf("answer = %d %s, want 500 that tells nothing of the panic", code, status)
	}
}

func TestASlowClientIsGivenUpWithoutHoldingOthers(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	address := strings.TrimPrefix(s.URL, "https://")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	for range 20 {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", address)
	}
	begun := time.Now()
	if code, _ := send(t, httpClient(t, s), "GET", s.URL+"/readyz", "", "", ""); code != 200 {
		t.Errorf("readyz = %d", code)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("readyz took %v beside slow clients", took)
	}
}

// TestNobodyWaitsForABodyOrAReaderForEver begins to send a module and another
// route's body, and asks for what it does not read. Who reads and writes it is
// told before long: what it holds meanwhile is memory.
func TestNobodyWaitsForABodyOrAReaderForEver(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 3)
	read := func(what string, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- fmt.Sprint(what, " ", err != nil)
	}
	s := apitest.Start(t, apitest.With(func(p *apitest.Parts) {
		take := func(_ context.Context, r *http.Request, _ *registry.Request) (store.Object, error) {
			read("a module", r)
			return nil, apierrors.NewBadRequest("slow")
		}
		p.API.Uploads = map[string]api.Upload{"modules.policy.berth.dev": {MediaType: "application/wasm", Take: take}}
		p.API.Routes = map[string]api.Route{
			"POST /plan": {Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { read("a plan", r) })},
			"GET /large": {Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, err := w.Write(make([]byte, 64<<20))
				ended <- fmt.Sprint("an answer ", err != nil)
			})},
		}
	}))
	address := strings.TrimPrefix(s.URL, "https://")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	for _, request := range []string{
		"POST /apis/policy.berth.dev/v1alpha1/modules HTTP/1.1\r\nHost: h\r\nContent-Type: application/wasm\r\nContent-Length: 1000000\r\n\r\n\x00asm",
		"POST /plan HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{   \r\n",
		"GET /large HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, request)
	}
	for range 3 {
		select {
		case what := <-ended:
			if !strings.HasSuffix(what, " true") {
				t.Errorf("%s ended without an error", what)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("one of them still waits for its client")
		}
	}
}

// TestASlowReaderIsGivenUp fills the connection of a client that reads nothing,
// and asks beside it.
func TestASlowReaderIsGivenUp(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	admin := client(t, s, "")
	big := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "big"}, Data: map[string]string{"a": strings.Repeat("x", 900<<10)}}
	if _, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), big, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(s.URL, "https://")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	var slow []*tls.Conn
	for range 2 {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /api/v1/namespaces/default/configmaps?watch=1 HTTP/1.1\r\nHost: %s\r\n\r\n", address)
		slow = append(slow, conn)
	}
	// Each change is as long again, so the slow ones are soon behind by more
	// than connections hold, and the writer must not wait for them.
	for i := range 40 {
		big.Labels = map[string]string{"n": fmt.Sprint(i)}
		if _, err := admin.CoreV1().ConfigMaps("default").Update(t.Context(), big, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("update %d beside slow watchers: %v", i, err)
		}
	}
	polltest.Pass(api.WriteTime + time.Second) // their deadline is over
	for i, conn := range slow {
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if n, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("slow watcher %d is still there after %d bytes: %v", i, n, err)
		}
	}
}

// TestSlowReadersKeepNobodyOut fills a level with clients that ask for much and
// read nothing, and asks beside them.
func TestSlowReadersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	const seats = 8
	limits := flowcontrol.Defaults(1)
	for name, l := range limits {
		l.Seats = seats
		limits[name] = l
	}
	s := apitest.Start(t, apitest.With(func(p *apitest.Parts) { p.API.Fairness = flowcontrol.New(limits, 0) }))
	for i := range 70 { // lists of more than a few are written as they are made
		big := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("big-%d", i)}, Data: map[string]string{"a": strings.Repeat("x", 900<<10)}}
		if _, err := s.Registry.Create(t.Context(), registry.On("configmaps", "default", ""), big); err != nil {
			t.Fatal(err)
		}
	}
	address := strings.TrimPrefix(s.URL, "https://")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	for i := range 2 * seats {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		path := "/api/v1/namespaces/default/configmaps"
		if i >= 3 {
			path += fmt.Sprintf("/big-%d", i)
		}
		fmt.Fprintf(conn, strings.Repeat("GET %[1]s HTTP/1.1\r\nHost: %[2]s\r\n\r\n", 20), path, address)
	}
	for range 3 {
		if code, text := send(t, httpClient(t, s), "GET", s.URL+"/api/v1/namespaces/default/configmaps?limit=1&labelSelector=a", "", "", ""); code != 200 {
			t.Errorf("beside slow readers: %d %s", code, clip(text))
		}
	}
}

var panicking = map[string]api.Route{"GET /boom": {Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a secret") })}}

func TestALargeModuleIsToldAnotherWay(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, apitest.With(func(p *apitest.Parts) {
		p.API.Uploads = (*berthapi.API)(nil).Uploads(p.API.Registry)
	}))
	large := `{"spec":{"wasm":"` + strings.Repeat("A", api.MaxBody) + `"}}`
	for path, want := range map[string]bool{
		"/apis/policy.berth.dev/v1alpha1/modules": true, "/api/v1/namespaces/default/configmaps": false,
	} {
		code, said := send(t, httpClient(t, s), "POST", s.URL+path, "application/json", "", large)
		if code != http.StatusRequestEntityTooLarge || strings.Contains(said, "`berth policy push`") != want {
			t.Errorf("POST %s of a large body = %d %s", path, code, said)
		}
	}
}

// reviewer knows no answer: a request for one that nobody can have does not come
// so far.
type reviewer struct{}

func (reviewer) Review(_ context.Context, _ user.Info, _ string, obj runtime.Object) (runtime.Object, error) {
	return obj, nil
}

func TestAReviewIsNoTable(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, apitest.With(func(p *apitest.Parts) { p.API.Reviewer = reviewer{} }))
	const body = `{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`
	for accept, want := range map[string]int{
		"application/json;as=Table;v=v1;g=meta.k8s.io":                  http.StatusNotAcceptable,
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json": http.StatusCreated,
	} {
		if code, answer := send(t, httpClient(t, s), "POST", s.URL+"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", accept, body); code != want {
			t.Errorf("a review wanted as %s = %d %s, want %d", accept, code, clip(answer), want)
		}
	}
}
