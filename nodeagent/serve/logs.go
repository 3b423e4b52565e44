package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/berth-dev/berth/nodeagent/logs"
	"github.com/berth-dev/berth/nodeagent/pod"
)

func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	t, ok := s.find(w, r)
	if !ok {
		return
	}
	container := r.PathValue("container")
	o, previous, err := logOptions(r.URL.Query(), time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	path := t.logPath
	if previous {
		if path = t.previous; path == "" {
			http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", container, r.PathValue("pod")), http.StatusBadRequest)
			return
		}
		o.Follow = false
	}
	if path == "" {
		http.Error(w, fmt.Sprintf("container %q in pod %q is waiting to start: %s", container, r.PathValue("pod"), t.waiting), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	out := &flusher{w: w}
	err = logs.Read(r.Context(), path, o, out, out, func() bool { return s.runs(r, t) })
	switch {
	case err == nil && !out.wrote:
		w.WriteHeader(http.StatusOK)
	case errors.Is(err, fs.ErrNotExist) && !out.wrote:
		http.Error(w, fmt.Sprintf("the log of container %q is gone", container), http.StatusNotFound)
	case err != nil && !out.wrote:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case errors.Is(err, logs.ErrBehind):
		s.cfg.Log.Warn("cut a followed log", "namespace", r.PathValue("namespace"), "pod", r.PathValue("pod"), "container", container, "err", err)
		panic(http.ErrAbortHandler) // an end in good order would say that this was all
	case err != nil:
		s.cfg.Log.Debug("send a log", "err", err)
	}
}

// runs says whether the run whose log is followed goes on.
func (s *Server) runs(r *http.Request, t target) (on bool) {
	s.cfg.Pods.View(r.PathValue("namespace"), r.PathValue("pod"), func(rec *pod.Record) {
		c := rec.Containers[r.PathValue("container")]
		on = c != nil && string(rec.Pod.UID) == t.uid && c.ID == t.id && c.Phase == pod.Running
	})
	return on
}

func logOptions(q url.Values, now time.Time) (o logs.Options, previous bool, err error) {
	flag := func(name string) bool {
		v := q.Get(name)
		if v == "" {
			return false
		}
		b, parseErr := strconv.ParseBool(v)
		if parseErr != nil {
			err = fmt.Errorf("%s: %q is neither true nor false", name, v)
		}
		return b
	}
	number := func(name string, least int64) (int64, bool) {
		v := q.Get(name)
		if v == "" {
			return 0, false
		}
		n, parseErr := strconv.ParseInt(v, 10, 64)
		if parseErr != nil || n < least {
			err = fmt.Errorf("%s: %q is not a number of at least %d", name, v, least)
		}
		return n, true
	}
	o.Follow, o.Timestamps, previous = flag("follow"), flag("timestamps"), flag("previous")
	o.Tail, o.HasTail = number("tailLines", 0)
	o.LimitBytes, _ = number("limitBytes", 1)
	if seconds, ok := number("sinceSeconds", 1); ok {
		o.Since = now.Add(-time.Duration(seconds) * time.Second)
	}
	if v := q.Get("sinceTime"); v != "" {
		t, parseErr := time.Parse(time.RFC3339, v)
		if parseErr != nil {
			err = fmt.Errorf("sinceTime: %w", parseErr)
		}
		o.Since = t
	}
	switch v := q.Get("stream"); v {
	case "", "All":
	case "Stdout":
		o.Stream = "stdout"
	case "Stderr":
		o.Stream = "stderr"
	default:
		err = fmt.Errorf("stream: %q is none of All, Stdout, Stderr", v)
	}
	return o, previous, err
}

// flusher sends each write at once.
type flusher struct {
	w     http.ResponseWriter
	wrote bool
}

func (f *flusher) Write(p []byte) (int, error) {
	f.wrote = true
	n, err := f.w.Write(p)
	if err == nil {
		err = http.NewResponseController(f.w).Flush()
	}
	return n, err
}
