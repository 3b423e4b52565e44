//go:build figures

package console

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
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
	b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console")))
	b.sees("all nodes", "window.drawn > 0")
	number = func(script string) float64 {
		n, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](script))
		if err != nil {
			b.t.Fatal(err)
		}
		return n
	}
	row("first paint", "1 s", "%.2f s", number(`performance.getEntriesByName("first-contentful-paint")[0].startTime`)/1000)
	row("all nodes drawn", "1.5 s", "%.2f s", number("window.drawn")/1000)
	row("longest task until then", "50 ms", "%.0f ms", number("Math.max(0, ...window.tasks)"))
	return number
}

// TestManyNodes prints what the topology of 30,000 nodes takes to open.
func TestManyNodes(t *testing.T) {
	c := newClusterOf(t, 30_000)
	fmt.Printf("| topology, 30000 nodes | aim | figure |\n|---|---|---|\n")
	number := newBrowser(t).opensTimed(c, "30,000 nodes")
	row("heap", "", "%.0f MB", number("performance.memory.usedJSHeapSize")/(1<<20))
}

// TestTenTabs prints what ten tabs of the topology cost the host: its own processor
// time, with and without them, while nothing happens and while pods are bound.
func TestTenTabs(t *testing.T) {
	const tabs = 10
	c := newClusterOf(t, manyNodes)
	for i := range deployments {
		c.run("", "kubectl", "create", "deployment", fmt.Sprint("app-", i), "--image=example.test/app:1", "--replicas=500")
	}
	fmt.Printf("| %d tabs, %d nodes | aim | figure |\n|---|---|---|\n", tabs, manyNodes)
	pods := 500
	settle := func() {
		for i := range deployments {
			c.run("", "kubectl", "rollout", "status", fmt.Sprint("deployment/app-", i), "--timeout=15m")
		}
		time.Sleep(20 * time.Second) // what follows of it: statuses, endpoints, events, garbage
	}
	atRest := func() float64 {
		began, spent := time.Now(), c.spent()
		time.Sleep(20 * time.Second)
		return 100 * (c.spent() - spent).Seconds() / time.Since(began).Seconds()
	}
	// bound is what a pod costs the host, from its creation until its Deployment has
	// counted it.
	bound := func() float64 {
		spent := c.spent()
		pods += binds
		for i := range deployments {
			c.run("", "kubectl", "scale", fmt.Sprint("deployment/app-", i), fmt.Sprint("--replicas=", pods))
		}
		settle()
		return float64((c.spent() - spent).Microseconds()) / (deployments * binds)
	}
	settle()
	quiet, before := atRest(), bound()
	all := make([]*browser, tabs)
	for i := range all {
		all[i] = newBrowser(t)
		all[i].do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console")))
		all[i].reads("5,000 nodes")
	}
	row("the host while nothing happens: without tabs, with them", "3 % of a core more", "%.1f %%, %.1f %%", quiet, atRest())
	watched := bound()
	for _, b := range all {
		b.do("leave the console", chromedp.Navigate("about:blank"))
	}
	time.Sleep(20 * time.Second)
	row("the host for each pod: without tabs, with them, without", "2 % more", "%.0f, %.0f, %.0f µs", before, watched, bound())
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
