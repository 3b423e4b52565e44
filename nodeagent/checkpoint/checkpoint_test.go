package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/pod"
)

func record(uid string) *pod.Record {
	return pod.New(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}, time.Unix(1000, 0))
}

func TestRecordsSurviveAndBrokenOnesAreSetAside(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"a", "b", "c", "d"} {
		r := record(uid)
		r.Containers["c"].Restarts = 7
		data, err := json.Marshal(r)
		if err == nil {
			err = d.Save(uid, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Remove("d"); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(path, "b.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"b.json": strings.Replace(string(good), `"restarts":7`, `"restarts":8`, 1), // a flipped bit
		"c.json": string(good[:len(good)/2]),
		"e.json": string(good), // another pod's
		"f.json": strings.Replace(string(good), `"version":1`, `"version":9`, 1),
	} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	records, err := d.Load()
	if err == nil || len(records) != 1 || records[0].Pod.Name != "a" || records[0].Containers["c"].Restarts != 7 {
		t.Errorf("Load = %v, %v; want a alone, and an error", records, err)
	}
	if records, err = d.Load(); err != nil || len(records) != 1 {
		t.Errorf("second Load = %v, %v: the broken ones are set aside", records, err)
	}
}

func TestAPodThatIsEndingKeepsItsGraceOverARestart(t *testing.T) {
	t.Parallel()
	now := time.Now()
	grace := int64(30)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	r := pod.New(p, now.Add(-time.Hour))
	deleted := p.DeepCopy()
	deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(30 * time.Second)}, &grace
	r.Update(deleted, now)
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r)
	if err == nil {
		err = d.Save("a", data)
	}
	if err != nil {
		t.Fatal(err)
	}
	records, err := d.Load()
	if err != nil || len(records) != 1 {
		t.Fatalf("Load = %v, %v", records, err)
	}
	if got := records[0]; !got.KillSince.Equal(now) || got.KillGrace != 30*time.Second {
		t.Errorf("told to stop %v ago with %v to go, want what it had: 30s", now.Sub(got.KillSince), got.KillGrace)
	}
}

func TestUIDsAreNoPaths(t *testing.T) {
	t.Parallel()
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"", "..", "../x", "a/b"} {
		if err := d.Save(uid, []byte("{}")); err == nil {
			t.Errorf("Save(%q) succeeds", uid)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"checksum":0,"record":{}}`))
	f.Add([]byte(`{"pod":{"metadata":{"uid":"a"},"spec":{"containers":[{"name":"c"}]}},"containers":{"c":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		// As a file, and as a record in a file that is whole.
		record := bytes.TrimSpace(data)
		whole := fmt.Sprintf(`{"version":%d,"checksum":%d,"record":%s}`, version, crc32.ChecksumIEEE(record), record)
		for _, text := range []string{string(data), whole} {
			if r, err := decode([]byte(text)); err == nil && r.Pod == nil {
				t.Errorf("a record without a pod")
			}
		}
	})
}
