package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api/apitest"
)

// FuzzRequest sends anything to the whole API: it is answered with anything but
// an error of the host's own.
func FuzzRequest(f *testing.F) {
	s := apitest.Start(f)
	createPods(f, client(f, s, ""), "here")
	const (
		pods = "/api/v1/namespaces/default/pods"
		json = "application/json"
	)
	for _, r := range [][6]string{
		{"GET", pods, "watch=1&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=1", "", json},
		{"GET", pods, "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "", "application/vnd.kubernetes.protobuf"},
		{"GET", pods, "limit=1&continue=e30&labelSelector=a%20in%20(b)&fieldSelector=spec.nodeName%3Dn", "", table},
		{"GET", pods + "/here", "pretty=1&includeObject=Object", "", "application/yaml"},
		{"POST", pods, "dryRun=All&fieldManager=x&fieldValidation=Strict", json, json, `{"metadata":{"generateName":"a-"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1e3"}}}]}}`},
		{"POST", pods, "dryRun=All", "application/yaml", "", "metadata: {name: &a b}\nspec: {containers: [{name: *a}]}"},
		{"POST", pods + "/here/eviction", "", json, "", `{"apiVersion":"policy/v1","kind":"Eviction","deleteOptions":{"gracePeriodSeconds":-1,"dryRun":["All"]}}`},
		{"POST", pods + "/here/binding", "dryRun=All", json, "", `{"target":{"name":"n"}}`},
		{"PATCH", pods + "/here", "dryRun=All&force=true&fieldManager=f", "application/apply-patch+yaml", "", "apiVersion: v1\nkind: Pod\nmetadata: {labels: {a: b}}"},
		{"PATCH", pods + "/here/status", "dryRun=All", "application/strategic-merge-patch+json", "", `{"status":{"conditions":[{"$patch":"delete","type":"Ready"}]}}`},
		{"PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale", "dryRun=All", "application/json-patch+json", "", `[{"op":"move","from":"/spec","path":"/status"}]`},
		{"DELETE", pods + "/here", "dryRun=All&propagationPolicy=Orphan&gracePeriodSeconds=5", json, "", `{"preconditions":{"uid":""}}`},
		{"DELETE", pods, "dryRun=All&labelSelector=!a", "", ""},
		{"GET", "/openapi/v3/apis/apps/v1", "hash=x", "", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"},
		{"GET", "/apis", "", "", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
	} {
		f.Add(r[0], r[1], r[2], r[3], r[4], []byte(r[5]))
	}
	f.Fuzz(func(t *testing.T, method, path, query, media, accept string, body []byte) {
		r := &http.Request{
			Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{"Content-Type": {media}, "Accept": {accept}},
			Body: http.NoBody, Host: "server", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "/connect") {
			return // no server hands these on
		}
		if len(body) > 0 {
			r.Body, r.ContentLength = http.MaxBytesReader(nil, nopBody{strings.NewReader(string(body))}, 1<<20), int64(len(body))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		s.Handler.ServeHTTP(w, r.WithContext(ctx))
		switch {
		case w.Code < 500:
		case w.Code == http.StatusGatewayTimeout: // a version that is still to come, or the 50 ms
		case w.Code == http.StatusServiceUnavailable && ctx.Err() != nil:
		case ctx.Err() != nil && strings.Contains(w.Body.String(), context.DeadlineExceeded.Error()): // cut short, wherever it was
		default:
			t.Fatalf("%s %s?%s (%s, %s) %q = %d %s", method, path, query, media, accept, body, w.Code, clip(w.Body.String()))
		}
	})
}

type nopBody struct{ *strings.Reader }

func (nopBody) Close() error { return nil }
