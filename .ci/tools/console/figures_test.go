//go:build figures

package console

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

const (
	manyNodes = 5000
	manyPods  = 50_000
	binds     = 1000 // a second
	// deployments share the pods: a controller answers for 10,000 of one parent.
	deployments = 20
)

// TestFigures prints what the topology costs a tab, each beside its aim.
// It fails for none of them: the machine is whose it is.
func TestFigures(t *testing.T) {
	c := newClusterOf(t, manyNodes)
	for i := range deployments {
		c.run("", "kubectl", "create", "deployment", fmt.Sprint("app-", i), "--image=example.test/app:1", fmt.Sprint("--replicas=", manyPods/deployments))
	}
	for i := range deployments {
		c.run("", "kubectl", "rollout", "status", fmt.Sprint("deployment/app-", i), "--timeout=15m")
	}
	fmt.Printf("| topology, %d nodes, %d pods | aim | figure |\n|---|---|---|\n", manyNodes, manyPods)

	b := newBrowser(t)
	var received atomic.Int64
	if err := chromedp.Listen(b.ctx, func(event any) {
		if e, ok := event.(*network.EventDataReceived); ok {
			received.Add(e.DataLength)
		}
	}); err != nil {
		t.Fatal(err)
	}
	call(b, "watch the network", network.Enable, network.EnableParams{})
	call(b, "watch the performance", performance.Enable, performance.EnableParams{})
	number := b.opensTimed(c, "5,000 nodes")
	b.script("forget tasks", "window.tasks = []")

	heap := func() float64 {
		for _, m := range call(b, "measure", performance.GetMetrics, cdp.Empty{}).Metrics {
			if m.Name == "JSHeapUsedSize" {
				return m.Value / (1 << 20)
			}
		}
		return 0
	}
	received.Store(0)
	var heaps []float64
	began := time.Now()
	placed := func() float64 {
		return number(`Number([...document.querySelectorAll("aside h2")].map((e) => e.innerText.match(/([\d,]+) pods/)).find(Boolean)[1].replaceAll(",", ""))`)
	}
	before, spent := placed(), c.spent()
	for second := 1; second <= 60; second++ {
		more := (second-1)/deployments + 1
		c.run("", "kubectl", "scale", fmt.Sprint("deployment/app-", second%deployments), fmt.Sprint("--replicas=", manyPods/deployments+more*binds))
		heaps = append(heaps, heap())
		time.Sleep(time.Until(began.Add(time.Duration(second) * time.Second)))
	}
	took := time.Since(began).Seconds()
	row("pods seen to land, for 60 s", "1,000/s", "%.0f/s", (placed()-before)/took)
	row("received in that", "64 KiB/s", "%.0f KiB/s", float64(received.Load())/1024/took)
	row("longest task in that", "50 ms", "%.0f ms", number("Math.max(0, ...window.tasks)"))
	row("the host's own work in that, with one tab", "", "%.1f s", (c.spent() - spent).Seconds())
	row("heap: at first, highest, at the end", "80 MB, flat", "%.0f, %.0f, %.0f MB", heaps[0], slices.Max(heaps), heaps[len(heaps)-1])
}

// row prints one.
func row(what, aim, format string, args ...any) {
	fmt.Printf("| %s | %s | %s |\n", what, aim, fmt.Sprintf(format, args...))
}

// opensTimed opens the topology, prints how long that takes, and returns what reads a
// number of the page.
func (b *browser) opensTimed(c *cluster, all string) (number func(script string) float64) {
	b.t.Helper()
	call(b, "watch tasks", page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(`
		window.tasks = [];
		new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => e.duration))).observe({ type: "longtask", buffered: true });
		window.drawn = 0;
		new MutationObserver(() => {
			const told = document.querySelector("aside h2 ~ ul.legend")?.parentElement.textContent.includes(%q);
			if (!window.drawn && told && document.querySelector("canvas[aria-busy=false]")) window.drawn = performance.now();
		}).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-busy"] });`, all)})
	longest := b.longestTask(func() {
		b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console")))
		b.sees("all nodes", "window.drawn > 0")
	})
	number = func(script string) float64 {
		n, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](script))
		if err != nil {
			b.t.Fatal(err)
		}
		return n
	}
	row("first paint", "1 s", "%.2f s", number(`performance.getEntriesByName("first-contentful-paint")[0].startTime`)/1000)
	row("all nodes drawn", "1.5 s", "%.2f s", number("window.drawn")/1000)
	row("longest task until then, and by its own processor time", "50 ms", "%.0f, %.0f ms", number("Math.max(0, ...window.tasks)"), float64(longest.Microseconds())/1000)
	return number
}

// longestTask is the processor time of the longest task of a page's main thread: on a
// machine whose cores do other things, too, tasks also wait.
func (b *browser) longestTask(while func()) (longest time.Duration) {
	b.t.Helper()
	type event struct {
		Name     string
		Pid, Tid int
		Tdur     int64 // in microseconds
		Args     struct{ Name string }
	}
	var mu sync.Mutex
	var events []event
	ended := make(chan struct{})
	err := chromedp.Listen(b.ctx, func(e any) {
		switch e := e.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, value := range e.Value {
				var one event
				if data, err := json.Marshal(value); err == nil && json.Unmarshal(data, &one) == nil {
					events = append(events, one)
				}
			}
		case *tracing.EventTracingComplete:
			close(ended)
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	call(b, "trace tasks", tracing.Start, tracing.StartParams{TransferMode: "ReportEvents", TraceConfig: &tracing.TraceConfig{IncludedCategories: []string{"toplevel"}}})
	while()
	call(b, "end the trace", tracing.End, cdp.Empty{})
	<-ended
	mu.Lock()
	defer mu.Unlock()
	mains := map[[2]int]bool{}
	for _, e := range events {
		if e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
			mains[[2]int{e.Pid, e.Tid}] = true
		}
	}
	for _, e := range events {
		if mains[[2]int{e.Pid, e.Tid}] {
			longest = max(longest, time.Duration(e.Tdur)*time.Microsecond)
		}
	}
	return longest
}

// TestManyNodes prints what the topology of 30,000 nodes takes to open.
func TestManyNodes(t *testing.T) {
	c := newClusterOf(t, 30_000)
	fmt.Printf("| topology, 30000 nodes | aim | figure |\n|---|---|---|\n")
	number := newBrowser(t).opensTimed(c, "30,000 nodes")
	row("heap", "", "%.0f MB", number("performance.memory.usedJSHeapSize")/(1<<20))
}

// TestTenTabs prints what ten tabs of the topology cost the host: its own processor
// time, with and without them, while nothing happens and while pods are bound. What
// follows the topology is this process and no browser: that would draw on the cores
// on which the host is measured.
func TestTenTabs(t *testing.T) {
	const tabs, rounds, podsOfRound = 10, 4, 5000
	c := newClusterOf(t, manyNodes)
	atRest := func(long time.Duration) float64 {
		began, spent := time.Now(), c.spent()
		time.Sleep(long)
		return (c.spent() - spent).Seconds() / time.Since(began).Seconds()
	}
	// bound is what a pod costs the host in microseconds, from its creation until its
	// Deployment has counted it, beyond what the host uses at rest in that time: on a
	// machine that is busy it takes longer, and costs no more.
	made := 0
	bound := func() float64 {
		began, spent := time.Now(), c.spent()
		for range 10 {
			c.run("", "kubectl", "create", "deployment", fmt.Sprint("app-", made), "--image=example.test/app:1", fmt.Sprint("--replicas=", podsOfRound/10))
			made++
		}
		for i := range 10 {
			c.run("", "kubectl", "rollout", "status", fmt.Sprint("deployment/app-", made-1-i), "--timeout=15m")
		}
		time.Sleep(5 * time.Second) // what follows of it: statuses, endpoints, events
		took, used := time.Since(began).Seconds(), (c.spent() - spent).Seconds()
		return (used - took*atRest(10*time.Second)) * 1e6 / podsOfRound
	}
	bound()
	quiet := atRest(20 * time.Second)
	leave, _ := c.follow(tabs)
	watched := atRest(20 * time.Second)
	leave()
	fmt.Printf("| %d tabs, %d nodes | aim | figure |\n|---|---|---|\n", tabs, manyNodes)
	row("the host while nothing happens: without tabs, with them", "3 % of a core more", "%.1f %%, %.1f %%", 100*quiet, 100*watched)

	// Each round with tabs is held against those before and after it.
	without, with, more, received := []float64{bound()}, []float64{}, []float64{}, int64(0)
	for i := range rounds {
		leave, read := c.follow(tabs)
		with = append(with, bound())
		leave()
		received += read()
		without = append(without, bound())
		more = append(more, 100*(2*with[i]/(without[i]+without[i+1])-1))
	}
	slices.Sort(more)
	row("the host for each pod, in µs: without tabs; with them", "", "%.0f; %.0f", without, with)
	row("what they add to it, from the lowest to the highest", "2 %", "%.1f %%", more)
	row("KiB that each tab received for 1,000 pods, with its first picture", "", "%d", received*1000/1024/(tabs*rounds*podsOfRound))
}

// follow reads the topology as so many tabs do, each by a connection of its own, until
// leave is called; read tells how many bytes came.
func (c *cluster) follow(tabs int) (leave func(), read func() int64) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	var following sync.WaitGroup
	var bytes atomic.Int64
	for range tabs {
		body := c.topology(ctx)
		following.Go(func() {
			defer body.Close()
			n, _ := io.Copy(io.Discard, body) // it ends when they leave
			bytes.Add(n)
		})
	}
	time.Sleep(5 * time.Second) // first pictures are no pod's cost
	return func() { cancel(); following.Wait() }, bytes.Load
}

// topology signs in and opens the stream of the topology.
func (c *cluster) topology(ctx context.Context) io.ReadCloser {
	c.t.Helper()
	address, code, _ := strings.Cut(c.run("", os.Getenv("BERTH"), "console"), "#code=")
	jar, err := cookiejar.New(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	tab := http.Client{Jar: jar, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	signedIn := struct{ Key string }{Key: "none"}
	ask := func(method, path, body string) io.ReadCloser {
		request, err := http.NewRequestWithContext(ctx, method, address+path, strings.NewReader(body))
		if err != nil {
			c.t.Fatal(err)
		}
		request.Header.Set("Berth-Console", signedIn.Key)
		response, err := tab.Do(request)
		if err != nil || response.StatusCode >= http.StatusMultipleChoices {
			c.t.Fatalf("%s %s: %v, %v", method, path, err, response)
		}
		return response.Body
	}
	answer := ask(http.MethodPost, "v1/session", `{"code":"`+code+`"}`)
	defer answer.Close()
	if err := json.NewDecoder(answer).Decode(&signedIn); err != nil {
		c.t.Fatal(err)
	}
	return ask(http.MethodGet, "v1/stream?view=topology&label=topology.kubernetes.io/zone", "")
}

// spent is the processor time that the host has used.
func (c *cluster) spent() time.Duration {
	c.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.process.Process.Pid))
	if err != nil {
		c.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ") // behind the name: state is field 3
	fields := strings.Fields(rest)
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / 100
}
