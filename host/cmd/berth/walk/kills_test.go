package walk_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/host/polltest"
)

// TestKilledHost kills the host in the middle of its work, again and again, on
// one data directory: 20 times, 200 in a campaign. What it acknowledged is
// there afterwards, it starts each time, and its revisions go up only.
func TestKilledHost(t *testing.T) {
	t.Parallel()
	kills := 20
	if campaign() {
		kills = 200
	}
	c := newCluster(t, "--listen", "127.0.0.1:0", "--agent", "none", "--simulate", "5")
	w := &witness{known: map[string]fate{}}
	for n := range kills {
		if t.Failed() {
			return
		}
		c.workUntilKilled(t, w)
		if n%4 == 3 { // one in four dies a second time while it starts
			c.killStarting(t)
		}
		c.start()
		c.wantAcknowledged(t, w)
	}
	t.Logf("%d kills, %d acknowledged writes, revision %d", kills, w.acks, w.newest)
	if w.acks < 100*kills/10 {
		t.Errorf("only %d writes were acknowledged between %d kills", w.acks, kills)
	}
}

// witness remembers what the host acknowledged.
type witness struct {
	mu     sync.Mutex
	known  map[string]fate
	newest int64 // revision that was seen in any answer or event
	start  int64 // newest, when this round began
	acks   int
	wrong  []string
}

// fate is what is known of one object: what was acknowledged last, and what was
// asked for after that without an answer. Gone is "".
type fate struct {
	value, revision string
	asked           []string
}

func (w *witness) ask(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.known[name]
	f.asked = append(f.asked, value)
	w.known[name] = f
}

func (w *witness) acknowledge(name, value, revision string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[name] = fate{value: value, revision: revision}
	w.acks++
	if revision != "" {
		w.sawLocked(revision)
	}
}

func (w *witness) saw(revision string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sawLocked(revision)
}

func (w *witness) sawLocked(revision string) {
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		w.wrong = append(w.wrong, "revision "+revision)
	}
	w.newest = max(w.newest, n)
	if n <= w.start {
		w.wrong = append(w.wrong, fmt.Sprintf("revision %d was used again: the last host had come to %d", n, w.start))
	}
}

const killWriters = 8

// workUntilKilled writes, schedules and watches until the host is killed.
func (c *cluster) workUntilKilled(t *testing.T, w *witness) {
	t.Helper()
	w.start = w.newest
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	config := rest.CopyConfig(c.rest)
	config.ContentType, config.Timeout = apiruntime.ContentTypeProtobuf, 30*time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for n := range killWriters {
		work.Go(func() { w.write(ctx, client, fmt.Sprintf("writer-%d", n)) })
	}
	work.Go(func() { w.place(ctx, client) })
	work.Go(func() { w.watch(ctx, client) })
	polltest.Pass(time.Duration(rand.IntN(400)) * time.Millisecond)
	c.kill()
	cancel()
	work.Wait()
	if len(w.wrong) > 0 {
		t.Fatal(w.wrong)
	}
}

// write creates, updates and deletes ConfigMaps of its own until an answer
// fails to come.
func (w *witness) write(ctx context.Context, client kubernetes.Interface, own string) {
	maps := client.CoreV1().ConfigMaps("default")
	for n := 0; ; n++ {
		name, value := fmt.Sprintf("%s-%d", own, n%20), strconv.Itoa(rand.Int())
		var made *v1.ConfigMap
		have, err := maps.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			w.ask(name, value)
			made, err = maps.Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}, metav1.CreateOptions{})
		case err != nil:
		case n%7 == 6:
			w.ask(name, "")
			if err = maps.Delete(ctx, name, metav1.DeleteOptions{}); err == nil {
				w.acknowledge(name, "", "")
			}
		default:
			w.ask(name, value)
			have.Data = map[string]string{"value": value}
			made, err = maps.Update(ctx, have, metav1.UpdateOptions{})
		}
		if err != nil {
			w.judge(ctx, err)
			return
		}
		if made != nil {
			w.acknowledge(name, value, made.ResourceVersion)
		}
	}
}

// judge notes an error that is more than a host's death.
func (w *witness) judge(ctx context.Context, err error) {
	var status apierrors.APIStatus
	if ctx.Err() == nil && errors.As(err, &status) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wrong = append(w.wrong, err.Error())
	}
}

// place gives the scheduler and the simulated nodes something to do.
func (w *witness) place(ctx context.Context, client kubernetes.Interface) {
	pods := client.CoreV1().Pods("default")
	for n := 0; ctx.Err() == nil; n++ {
		made, err := pods.Create(ctx, smallPod(fmt.Sprintf("placed-%d", rand.Int()), nil), metav1.CreateOptions{})
		if err == nil && n%8 > 0 {
			w.saw(made.ResourceVersion)
			err = pods.Delete(ctx, made.Name, *metav1.NewDeleteOptions(0))
		}
		if err != nil {
			w.judge(ctx, err)
			return
		}
	}
}

// watch sees revisions that others were told of.
func (w *witness) watch(ctx context.Context, client kubernetes.Interface) {
	events, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{ResourceVersion: strconv.FormatInt(w.start, 10)})
	if err != nil {
		w.judge(ctx, err)
		return
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		if p, ok := e.Object.(*v1.Pod); ok {
			w.mu.Lock()
			if n, err := strconv.ParseInt(p.ResourceVersion, 10, 64); err == nil {
				w.newest = max(w.newest, n)
			}
			w.mu.Unlock()
		}
	}
}

// killStarting starts the host and kills it before it can be ready.
func (c *cluster) killStarting(t *testing.T) {
	t.Helper()
	cmd := c.command()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	polltest.Pass(time.Duration(rand.IntN(500)) * time.Millisecond)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// wantAcknowledged compares what is there with what was acknowledged. A write
// that was cut off may have come to pass.
func (c *cluster) wantAcknowledged(t *testing.T, w *witness) {
	t.Helper()
	list, err := c.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := strconv.ParseInt(list.ResourceVersion, 10, 64); at < w.newest {
		t.Errorf("the host starts at revision %d, %d was told before", at, w.newest)
	} else {
		w.newest = at
	}
	have := map[string]*v1.ConfigMap{}
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	for name, f := range w.known {
		value, revision := "", ""
		if m := have[name]; m != nil {
			value, revision = m.Data["value"], m.ResourceVersion
		}
		switch {
		case value == f.value && (revision == f.revision || value == ""):
		case slices.Contains(f.asked, value):
		default:
			t.Errorf("ConfigMap %s is %q at %s; acknowledged was %q at %s, then asked %q", name, value, revision, f.value, f.revision, f.asked)
		}
		w.known[name] = fate{value: value, revision: revision}
	}
}
