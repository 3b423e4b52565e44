package abi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/abi"
)

// What a gate wants observed is checked when it is opened, and a refusal says
// what to do.
func TestObservesAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, json, err string }{
		{"a page", `{"name":"a","kind":"http","port":80,"path":"/healthz"}`, ""},
		{"all that a probe has", `{"name":"a","kind":"http","port":"https-web","scheme":"HTTPS","path":"/a%20b?full=1&x=%zz","httpHeaders":[{"name":"Host","value":"shop.example:8443"},{"name":"X-Empty","value":""}],"timeoutSeconds":3}`, ""},
		{"a connection by name", `{"name":"a","kind":"tcp","port":"grpc"}`, ""},
		{"a number in quotes", `{"name":"a","kind":"tcp","port":"8080"}`, ""},
		{"pods", `{"name":"a","kind":"pods","selector":"app=db"}`, ""},
		{"no name", `{"kind":"http","port":80}`, "the name must be 1 to 63"},
		{"no kind", `{"name":"a","port":80}`, "unknown kind"},
		{"no port", `{"name":"a","kind":"http"}`, `the port is ""`},
		{"port 0", `{"name":"a","kind":"tcp","port":0}`, "must be 1 to 65535"},
		{"a port below", `{"name":"a","kind":"tcp","port":-1}`, "must be 1 to 65535"},
		{"a port above", `{"name":"a","kind":"tcp","port":65536}`, "must be 1 to 65535"},
		{"a port beyond numbers", `{"name":"a","kind":"tcp","port":"99999999999999999999"}`, "or a port's name"},
		{"a port of digits and a line", `{"name":"a","kind":"tcp","port":"80-80"}`, "with a letter"},
		{"a port with capitals", `{"name":"a","kind":"tcp","port":"HTTP"}`, "or a port's name"},
		{"a port that is no name", `{"name":"a","kind":"tcp","port":"a--b"}`, "beside another"},
		{"a port with an edge", `{"name":"a","kind":"tcp","port":"web-"}`, "at an end"},
		{"a port too long", `{"name":"a","kind":"tcp","port":"sixteen-letters-"}`, "1 to 15"},
		{"a port that is another host", `{"name":"a","kind":"http","port":"80@evil"}`, "or a port's name"},
		{"a scheme in small letters", `{"name":"a","kind":"http","port":80,"scheme":"https"}`, "use HTTP or HTTPS"},
		{"a scheme for a connection", `{"name":"a","kind":"tcp","port":80,"scheme":"HTTPS"}`, "is not for the kind"},
		{"headers for pods", `{"name":"a","kind":"pods","httpHeaders":[{"name":"A","value":"b"}]}`, "is not for the kind"},
		{"another host", `{"name":"a","kind":"http","port":80,"host":"metadata.internal"}`, "a Host among httpHeaders"},
		{"a path with a space", `{"name":"a","kind":"http","port":80,"path":"/a b"}`, "write it as %20"},
		{"a path that would be a second request", `{"name":"a","kind":"http","port":80,"path":"/ HTTP/1.1\r\n\r\nDELETE /"}`, "control character at 1"},
		{"a path that does not unescape", `{"name":"a","kind":"http","port":80,"path":"/100%"}`, "write it as %25"},
		{"an endless path", `{"name":"a","kind":"http","port":80,"path":"/` + strings.Repeat("a", abi.MaxPath) + `"}`, "at most 2048"},
		{"a header without a name", `{"name":"a","kind":"http","port":80,"httpHeaders":[{"value":"x"}]}`, "no name of a header"},
		{"a header that is two", `{"name":"a","kind":"http","port":80,"httpHeaders":[{"name":"A: b\r\nC","value":"d"}]}`, "no name of a header"},
		{"a value that is two headers", `{"name":"a","kind":"http","port":80,"httpHeaders":[{"name":"A","value":"b\r\nC: d"}]}`, "has a control character"},
		{"a Host that is a way", `{"name":"a","kind":"http","port":80,"httpHeaders":[{"name":"hOST","value":"a/b"}]}`, "no name or address"},
		{"a Host of nothing", `{"name":"a","kind":"http","port":80,"httpHeaders":[{"name":"Host","value":""}]}`, "no name or address"},
		{"a large header", `{"name":"a","kind":"http","port":80,"httpHeaders":[{"name":"A","value":"` + strings.Repeat("a", abi.MaxHeaderBytes) + `"}]}`, "more than 4096 bytes"},
		{"many headers", `{"name":"a","kind":"http","port":80,"httpHeaders":[` + strings.Repeat(`{"name":"A","value":"b"},`, abi.MaxHeaders) + `{"name":"A","value":"b"}]}`, "17 httpHeaders, at most 16"},
		{"no resource", `{"name":"a","kind":"objects"}`, "names no resource"},
		{"no condition", `{"name":"a","kind":"node"}`, "names no condition"},
		{"more timeout than there is", `{"name":"a","kind":"tcp","port":80,"timeoutSeconds":11}`, "timeoutSeconds is 11: it must be 1 to 10"},
		{"less than none", `{"name":"a","kind":"http","port":80,"timeoutSeconds":-1}`, "it must be 1 to 10"},
		{"a path for a connection", `{"name":"a","kind":"tcp","port":80,"path":"/healthz"}`, "path is not for the kind tcp"},
		{"a selector for a page", `{"name":"a","kind":"http","port":80,"selector":"app=db"}`, "selector is not for the kind http"},
		{"a resource for pods", `{"name":"a","kind":"pods","resource":"services"}`, "resource is not for the kind pods"},
		{"a port for pods", `{"name":"a","kind":"pods","port":80}`, "port is not for the kind pods"},
		{"a namespace for a node", `{"name":"a","kind":"node","condition":"Ready","namespace":"a"}`, "namespace is not for the kind node"},
		{"a condition for objects", `{"name":"a","kind":"objects","resource":"services","condition":"Ready"}`, "condition is not for the kind objects"},
		{"timeout with objects", `{"name":"a","kind":"objects","resource":"services","timeoutSeconds":3}`, "timeoutSeconds is not for the kind objects"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var o abi.Observe
			if err := json.Unmarshal([]byte(tt.json), &o); err != nil {
				t.Fatal(err)
			}
			check(t, abi.CheckObserves([]abi.Observe{o}), tt.err)
			again := abi.Observe{}
			b, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &again); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(o, again); d != "" {
				t.Errorf("written and read again it is another: %s", d)
			}
		})
	}
}

// A guest tells observations apart by their names.
func TestTwoObservesOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	a := abi.Observe{Name: "a", Kind: "tcp", Port: "80"}
	check(t, abi.CheckObserves([]abi.Observe{a, {Name: "b", Kind: "tcp", Port: "80"}, a}), "two have the name a")
}

func TestAPortIsANumberOrAName(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`true`, `8.5`, `1e3`, `[80]`, `{"number":80}`, `80000000000`} {
		var p abi.Port
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s is the port %q", text, p)
		}
	}
}
