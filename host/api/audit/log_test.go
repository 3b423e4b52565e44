package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

func record(path string) *Request {
	r := httptest.NewRequest(http.MethodGet, path, strings.NewReader("password=hunter2"))
	r.RemoteAddr = "10.0.0.7:4711"
	r.Header.Set("Authorization", "Bearer hunter2")
	return &Request{
		ID: "one", Begun: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Took: time.Second, Code: 201, Request: r,
		User: &user.DefaultInfo{Name: "erin", UID: "7", Groups: []string{"dev"}, Extra: map[string][]string{"scopes": {"view"}}},

		Impersonated: &user.DefaultInfo{Name: strings.Repeat("x", longest+1), Groups: []string{"ops"}},
		About:        &apirequest.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "secrets", APIVersion: "v1", Namespace: "dev", Name: "s"},
	}
}

// run writes until the returned function has been called.
func run(t *testing.T, l *Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func lines(t *testing.T, path string) []auditv1.Event {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []auditv1.Event
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var e auditv1.Event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			t.Fatalf("%q: %v", scanner.Text(), err)
		}
		all = append(all, e)
	}
	return all
}

func TestALineSaysWhoDidWhatAndNoSecrets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, l)
	l.Record(record("/api/v1/namespaces/dev/pods/p/exec?command=login&command=hunter2&container=c&token=hunter2"))
	stop()
	got := lines(t, path)
	if len(got) != 1 {
		t.Fatalf("%d lines", len(got))
	}
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	want := auditv1.Event{
		TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "audit.k8s.io/v1"}, Level: "Metadata", Stage: "ResponseComplete", AuditID: "one",
		RequestURI: "/api/v1/namespaces/dev/pods/p/exec?container=c", Verb: "create",
		User: authenticationv1.UserInfo{
			Username: "erin", UID: "7", Groups: []string{"dev"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"view"}},
		},
		ImpersonatedUser: &authenticationv1.UserInfo{Username: strings.Repeat("x", longest) + "…", Groups: []string{"ops"}},

		SourceIPs:      []string{"10.0.0.7"},
		ObjectRef:      &auditv1.ObjectReference{Resource: "secrets", Namespace: "dev", Name: "s", APIVersion: "v1"},
		ResponseStatus: &metav1.Status{Code: 201}, RequestReceivedTimestamp: metav1.NewMicroTime(begun), StageTimestamp: metav1.NewMicroTime(begun.Add(time.Second)),
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hunter2") {
		t.Errorf("a secret came into the log: %s", data)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
}

func TestTheLogIsPutAsideAtItsSizeAndOldOnesGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	now := time.Now()
	l, err := Open(path, Options{MaxBytes: 2000, Keep: 2, Now: func() time.Time {
		now = now.Add(time.Second)
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, l)
	for i := range 40 {
		l.Record(record(fmt.Sprintf("/api/v1/namespaces/dev/secrets/s%d", i)))
	}
	stop()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 3 {
		t.Errorf("%d files, want the log and 2 old ones", len(entries))
	}
	newest := lines(t, path)
	if last := newest[len(newest)-1]; last.RequestURI != "/api/v1/namespaces/dev/secrets/s39" {
		t.Errorf("the last line is of %s", last.RequestURI)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 2000 {
			t.Errorf("%s has %d bytes", entry.Name(), info.Size())
		}
	}
}

func TestAFullQueueDropsAndCounts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(path, Options{Queue: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		l.Record(record("/a")) // nobody writes yet
	}
	for len(l.lines) > 0 {
		l.write(<-l.lines)
	}
	l.Record(record("/b"))
	run(t, l)()
	got := lines(t, path)
	if len(got) != 3 || got[2].Annotations[dropped] != "3" {
		t.Errorf("%d lines, the last says %v", len(got), got[len(got)-1].Annotations)
	}
}

func TestAnUnusableFileIsToldAtOnce(t *testing.T) {
	t.Parallel()
	if _, err := Open(filepath.Join(t.TempDir(), "none", "audit.log"), Options{}); err == nil || !strings.Contains(err.Error(), "choose a file") {
		t.Errorf("Open = %v", err)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("/api/v1/pods", "watch=true&command=x", "agent")
	f.Add("/\x00\xff", "%zz", "\n{}")
	f.Fuzz(func(t *testing.T, path, query, agent string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path, r.URL.RawQuery = path, query
		r.Header["User-Agent"] = []string{agent}
		data, err := json.Marshal(eventOf(&Request{ID: agent, Request: r, About: &apirequest.RequestInfo{IsResourceRequest: true, Name: path}}))
		if err != nil || strings.ContainsRune(string(data), '\n') {
			t.Errorf("line = %q, %v", data, err)
		}
	})
}
