package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
)

// maxText bounds what is told of one part of an answer.
const maxText = 400

// names finds what a question calls the objects that it tells of.
func names(question []byte) map[string]string {
	all := map[string]string{}
	in := fb.GetRootAsReconcileInput(question, 0)
	var o fb.ControlObject
	note := func() { all[string(o.Uid())] = string(o.Kind()) + " " + string(o.Name()) }
	if in.Parent(&o) != nil {
		note()
	}
	for i := range in.ChildrenLength() {
		in.Children(&o, i)
		note()
	}
	for i := range in.RelatedLength() {
		in.Related(&o, i)
		note()
	}
	return all
}

// Says tells in lines what an answer to a question wants done, in the order in
// which the host does it.
func Says(question, answer []byte) ([]string, error) {
	out, err := abi.ReadReconcileResult(answer)
	if err != nil {
		return nil, err
	}
	known, lines := names(question), []string(nil)
	add := func(format string, args ...any) { lines = append(lines, cut(fmt.Sprintf(format, args...))) }
	for _, uid := range out.Adopt {
		add("adopts %s", known[uid])
	}
	for _, uid := range out.Release {
		add("releases %s", known[uid])
	}
	for _, p := range out.Patch {
		add("patches %s", strings.TrimSuffix(known[p.UID]+" "+p.Subresource, " ")+": "+compact(p.Patch))
	}
	for _, d := range out.Delete {
		add("deletes %s", known[d.UID])
	}
	for _, c := range out.Create {
		add("creates %d: %s", c.Count, compact(c.Object))
	}
	if len(out.Status) > 0 {
		add("gives the status %s", compact(out.Status))
	}
	for _, e := range out.Events {
		add("tells %s %s: %s", e.Type, e.Reason, e.Message)
	}
	if out.RequeueAfterNanos > 0 {
		add("is asked again after %d ns", out.RequeueAfterNanos)
	}
	if out.Step {
		add("goes on from there")
	}
	for _, why := range out.Why {
		add("waits: %s", why)
	}
	if len(out.Memory) > 0 {
		add("remembers %s", compact(out.Memory))
	}
	return lines, nil
}

func cut(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

func compact(data json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return string(data)
	}
	return b.String()
}
