package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Media types.
const (
	asProtobuf = apiruntime.ContentTypeProtobuf
	asJSON     = apiruntime.ContentTypeJSON
	asMerge    = "application/merge-patch+json"
)

// web is an HTTP client with a connection of its own.
type web struct {
	http *http.Client
	url  string
}

func (r *rig) web() (*web, error) { return webAs(r.config) }

// webAs is a client with the credentials of a config.
func webAs(config *rest.Config) (*web, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, DisableCompression: true})
	if err != nil {
		return nil, err
	}
	return &web{&http.Client{Transport: transport}, config.Host}, nil
}

func (r *rig) webs(n int) ([]*web, error) {
	all := make([]*web, n)
	for i := range all {
		var err error
		if all[i], err = r.web(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func closeWebs(all []*web) {
	for _, w := range all {
		w.http.CloseIdleConnections()
	}
}

// open sends a request and returns the answer's body, which the caller closes.
func (w *web) open(ctx context.Context, method, path, sends, wants string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", wants)
	if body != nil {
		req.Header.Set("Content-Type", sends)
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		_ = resp.Body.Close()
		return nil, &refused{resp.StatusCode, fmt.Sprintf("%s %s: %s: %s", method, path, resp.Status, said)}
	}
	return resp.Body, nil
}

// refused is an answer that is an error.
type refused struct {
	status int
	text   string
}

func (r *refused) Error() string { return r.text }

// do sends a request and reads the answer to its last byte.
func (w *web) do(ctx context.Context, method, path, sends, wants string, body []byte) ([]byte, error) {
	answer, err := w.open(ctx, method, path, sends, wants, body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return io.ReadAll(answer)
}

// doJSON sends in, if there is any, and reads the answer into out, if wanted.
func (w *web) doJSON(ctx context.Context, method, path, sends string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	data, err := w.do(ctx, method, path, sends, asJSON, body)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(data, out)
}

// inProtobuf is an object as a client sends it.
func inProtobuf(o apiruntime.Object) ([]byte, error) {
	return apiruntime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), o)
}

// small is a small object.
func small(namespace string) *v1.ConfigMap {
	return &v1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "small-", Namespace: namespace, Labels: map[string]string{"app": "bench"}},
		Data:       map[string]string{"key": "a value that is not long"},
	}
}
