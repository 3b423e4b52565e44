package stream

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"
	coreapi "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	"k8s.io/utils/ptr"
)

func (s *Streams) logs(w http.ResponseWriter, r *http.Request, t Target) error {
	pod, err := get[*corev1.Pod](r.Context(), s.objects, "pods", t.Namespace, t.Name)
	if err != nil {
		return err
	}
	opts, err := logOptions(r.URL.Query(), t.Name)
	if err != nil {
		return err
	}
	container, err := containerOf(pod, opts.Container)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		w.Header().Set("Content-Type", "text/plain")
		return nil // as in Kubernetes: nothing has been written yet
	}
	where, err := s.agent(r.Context(), pod.Spec.NodeName)
	if err != nil {
		return err
	}
	where.Path = "/containerLogs/" + t.Namespace + "/" + t.Name + "/" + container
	where.RawQuery = logQuery(opts).Encode()
	return s.copyLogs(w, r, pod.Spec.NodeName, where)
}

func (s *Streams) copyLogs(w http.ResponseWriter, r *http.Request, node string, where *url.URL) error {
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, where.String(), nil)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	answer, err := s.agents.RoundTrip(ask)
	if err != nil {
		return unreachable(node, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return agentRefusal(node, answer)
	}
	if wsstream.IsWebSocketRequest(r) {
		logSocket(w, r, answer.Body)
		return nil
	}
	kind := answer.Header.Get("Content-Type")
	if kind == "" {
		kind = "text/plain"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(http.StatusOK)
	_, err = io.Copy(flusher{w, http.NewResponseController(w)}, answer.Body)
	if err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // the status is sent; an end in good order would say that this was all
	}
	return nil
}

// flusher sends each piece at once, so that a followed log is seen as it grows.
type flusher struct {
	io.Writer
	controller *http.ResponseController
}

func (f flusher) Write(data []byte) (int, error) {
	n, err := f.Writer.Write(data)
	if err != nil {
		return n, err
	}
	return n, f.controller.Flush()
}

// logOptions reads the query as Kubernetes does.
func logOptions(query url.Values, pod string) (*corev1.PodLogOptions, error) {
	opts := &corev1.PodLogOptions{}
	if err := coreapi.Convert_url_Values_To_v1_PodLogOptions(&query, opts, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if opts.Stream == nil {
		opts.Stream = ptr.To(corev1.LogStreamAll)
	}
	internal := &core.PodLogOptions{}
	if err := coreapi.Convert_v1_PodLogOptions_To_core_PodLogOptions(opts, internal, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if problems := validation.ValidatePodLogOptions(internal, true); len(problems) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, pod, problems)
	}
	return opts, nil
}

func logQuery(opts *corev1.PodLogOptions) url.Values {
	query := url.Values{}
	flag := func(name string, set bool) {
		if set {
			query.Set(name, "true")
		}
	}
	number := func(name string, value *int64) {
		if value != nil {
			query.Set(name, strconv.FormatInt(*value, 10))
		}
	}
	flag("follow", opts.Follow)
	flag("previous", opts.Previous)
	flag("timestamps", opts.Timestamps)
	number("sinceSeconds", opts.SinceSeconds)
	number("tailLines", opts.TailLines)
	number("limitBytes", opts.LimitBytes)
	if opts.Stream != nil && *opts.Stream != corev1.LogStreamAll {
		query.Set("stream", *opts.Stream)
	}
	if opts.SinceTime != nil {
		query.Set("sinceTime", opts.SinceTime.Format(time.RFC3339Nano))
	}
	return query
}
