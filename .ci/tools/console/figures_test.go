//go:build figures

package console

import (
	"fmt"
	"os"
	"slices"
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
	print := func(what, aim, format string, args ...any) {
		fmt.Printf("| %s | %s | %s |\n", what, aim, fmt.Sprintf(format, args...))
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
	call(b, "watch tasks", page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.tasks = [];
		new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => e.duration))).observe({ type: "longtask", buffered: true });
		window.drawn = 0;
		new MutationObserver(() => { if (!window.drawn && document.body?.innerText.includes("5,000 nodes")) window.drawn = performance.now(); }).observe(document, { childList: true, subtree: true, characterData: true });`})
	b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console")))
	b.reads("5,000 nodes")
	number := func(script string) float64 {
		n, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](script))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	print("first paint", "1 s", "%.2f s", number(`performance.getEntriesByName("first-contentful-paint")[0].startTime`)/1000)
	print("all nodes drawn", "1.5 s", "%.2f s", number("window.drawn")/1000)
	print("longest task until then", "", "%.0f ms", number("Math.max(0, ...window.tasks)"))
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
		return number(`Number(document.querySelector("aside h2").innerText.match(/([\d,]+) pods/)[1].replaceAll(",", ""))`)
	}
	before := placed()
	for second := 1; second <= 60; second++ {
		more := (second-1)/deployments + 1
		c.run("", "kubectl", "scale", fmt.Sprint("deployment/app-", second%deployments), fmt.Sprint("--replicas=", manyPods/deployments+more*binds))
		heaps = append(heaps, heap())
		time.Sleep(time.Until(began.Add(time.Duration(second) * time.Second)))
	}
	took := time.Since(began).Seconds()
	print("pods seen to land, for 60 s", "1,000/s", "%.0f/s", (placed()-before)/took)
	print("received in that", "64 KiB/s", "%.0f KiB/s", float64(received.Load())/1024/took)
	print("longest task in that", "50 ms", "%.0f ms", number("Math.max(0, ...window.tasks)"))
	print("heap: at first, highest, at the end", "80 MB, flat", "%.0f, %.0f, %.0f MB", heaps[0], slices.Max(heaps), heaps[len(heaps)-1])
}
