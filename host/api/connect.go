package api

import (
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// explainSub is asked about pods that are gone, too.
const explainSub = "explain"

// connect hands a stream or a proxied request to its connector.
func (k *call) connect() error {
	connector := k.server.Connectors[k.place.kind.Resource+"/"+k.place.sub]
	if connector == nil {
		return pathNotFound()
	}
	r, err := k.request()
	if err != nil {
		return err
	}
	about := *r
	if _, name, _, ok := utilnet.SplitSchemeNamePort(r.Name); ok && k.place.sub == "proxy" {
		about.Name = name // of SCHEME:NAME:PORT
	}
	obj, err := k.server.Registry.Connect(k.r.Context(), &about, connectOptions(k.place.sub, k.query))
	if err != nil && !(k.place.sub == explainSub && apierrors.IsNotFound(err)) {
		return err
	}
	path := ""
	if _, rest, ok := strings.Cut(k.r.URL.Path, "/"+r.Name+"/"+k.place.sub); ok {
		path = rest
	}
	return connector(k.w, k.r, &Connection{Request: r, Object: obj, Path: path})
}

// connectOptions describe the stream to admission.
func connectOptions(sub string, q query) runtime.Object {
	switch sub {
	case "exec":
		return &corev1.PodExecOptions{Stdin: q.flag("stdin"), Stdout: q.flag("stdout"), Stderr: q.flag("stderr"), TTY: q.flag("tty"),
			Container: q.get("container"), Command: url.Values(q)["command"]}
	case "attach":
		return &corev1.PodAttachOptions{Stdin: q.flag("stdin"), Stdout: q.flag("stdout"), Stderr: q.flag("stderr"), TTY: q.flag("tty"), Container: q.get("container")}
	case "portforward":
		o := &corev1.PodPortForwardOptions{}
		for _, text := range strings.Split(q.get("ports"), ",") {
			if port, err := strconv.ParseInt(text, 10, 32); err == nil {
				o.Ports = append(o.Ports, int32(port))
			}
		}
		return o
	}
	return nil
}
