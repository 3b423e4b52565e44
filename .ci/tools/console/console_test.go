package console

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// timeout is how long anything may take on a machine that is busy.
const timeout = 90 * time.Second

// browser is a tab, and what it complained about.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.IgnoreCertErrors,
		chromedp.WindowSize(1500, 950), chromedp.WSURLReadTimeout(timeout))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	err := chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			// A host that is away, or refuses, is no fault of the pages.
			if e.Entry.Source != log.EntrySourceNetwork {
				b.complaints = append(b.complaints, fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text))
			}
		case *runtime.EventExceptionThrown:
			b.complaints = append(b.complaints, fmt.Sprintf("%+v", e.ExceptionDetails))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(b, "listen", log.Enable, cdp.Empty{})
	return b
}

// call sends the browser a command.
func call[P, R any](b *browser, what string, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	answer, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	return answer
}

// do does one thing.
func (b *browser) do(what string, action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	if err := chromedp.Do(ctx, action); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// script runs one in the page.
func (b *browser) script(what, script string) {
	b.t.Helper()
	b.do(what, chromedp.Evaluate[chromedp.Void](script))
}

// sees waits until a condition of the page holds. It is asked for from here: what
// chromedp offers for that is a script that the pages' own rules forbid.
func (b *browser) sees(what, condition string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	for {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](condition))
		if holds {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
			b.t.Fatalf("%s is not seen: %v; the browser complained of %q; the page says:\n%.3000s", what, err, b.complained(), text)
		}
	}
}

// reads waits until the page has a text.
func (b *browser) reads(text string) {
	b.t.Helper()
	b.sees(text, fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
}

// click waits for the link or button that has a text, and clicks it.
func (b *browser) click(text string) {
	b.t.Helper()
	b.sees("to click: "+text, fmt.Sprintf(`(() => {
		const it = [...document.querySelectorAll("a, button")].find((e) => e.innerText.includes(%q));
		it?.click();
		return !!it;
	})()`, text))
}

// open opens a view by its address.
func (b *browser) open(view string) {
	b.t.Helper()
	b.script("open "+view, fmt.Sprintf(`location.hash = "#/%s"`, view))
}

// shoot keeps a picture of the view, light and dark, where they are asked for.
func (b *browser) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("SHOTS")
	if dir == "" {
		return
	}
	for _, theme := range []string{"dark", "light"} {
		call(b, theme, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		b.capture(filepath.Join(dir, name+"-"+theme+".png"))
	}
	call(b, "a telephone", emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 400, Height: 800, DeviceScaleFactor: 1})
	b.capture(filepath.Join(dir, name+"-narrow.png"))
	call(b, "no telephone", emulation.ClearDeviceMetricsOverride, cdp.Empty{})
}

// capture keeps a picture of what is seen.
func (b *browser) capture(file string) {
	b.t.Helper()
	b.do("wait for the next frames", chromedp.Sleep(700*time.Millisecond))
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		picture, err = small(picture)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) complained() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.complaints, "\n")
}

// workload is what runs, and pods that wait: for more than any node has, for a gate,
// for a label. Of its services one answers.
func workload() string {
	var b strings.Builder
	for _, app := range []string{"web", "nobody"} {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Service, metadata: {name: %[1]s}, spec: {selector: {app: %[1]s}, ports: [{port: 80, targetPort: 8080}]}}\n", app)
	}
	for i, app := range []string{"web", "api", "cache", "ingest"} {
		fmt.Fprintf(&b, "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s}, spec: {replicas: %[2]d, selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: example.test/%[1]s:1, resources: {requests: {cpu: %[3]dm, memory: %[4]dGi}}}]}}}}\n",
			app, 300, 1000*(i+1), 2*(1+i))
	}
	pod := func(name, cpu, more string) {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: batch}}, spec: {%s containers: [{name: c, image: example.test/batch:1, resources: {requests: {cpu: %q}}}]}}\n", name, more, cpu)
	}
	b.WriteString("---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: giant}, spec: {replicas: 2, selector: {matchLabels: {app: giant}}, template: {metadata: {labels: {app: giant}}, spec: {containers: [{name: c, image: example.test/giant:1, resources: {requests: {cpu: 64}}}]}}}}\n")
	pod("placed", "1", "")
	pod("hungry", "64", "")
	pod("gated", "1", `schedulingGates: [{name: example.test/approval}],`)
	pod("nightly-report-generator-for-the-finance-department-eu-central", "1", `nodeSelector: {disk: fast},`)
	return b.String()
}

func TestConsole(t *testing.T) {
	c := newCluster(t)
	c.run("", "kubectl", "cordon", "sim-7", "sim-40", "sim-41")
	c.run("", "kubectl", "taint", "node", "sim-411", "sim-414", "sim-415", "dedicated=gpu:NoSchedule")
	c.run(workload(), "kubectl", "apply", "-f", "-")
	c.run("", "kubectl", "wait", "--for=condition=PodScheduled=false", "pod/hungry", "--timeout=90s")
	c.run("", "kubectl", "wait", "--for=condition=PodScheduled", "pod/placed", "--timeout=90s")

	b := newBrowser(t)
	address := c.run("", os.Getenv("BERTH"), "console", "--write")
	b.do("open the console", chromedp.Navigate(address))
	b.reads("berth-admin")
	b.reads("500 nodes, 1,201 pods")
	b.sees("that the code has left the address", `!location.href.includes("code=")`)
	b.shoot("topology")

	// Why is it pending, in three clicks: the view, the reason, the pod.
	b.click("Pending")
	b.click("Insufficient cpu")
	b.reads("request less cpu")
	b.shoot("pending")
	b.click("default/hungry")
	b.reads("What would place it")
	b.shoot("decision-pending")

	// A pod that was placed, and other weights.
	b.open("decision/default/placed")
	b.reads("It is on sim-")
	b.sees("a slider", `document.querySelector("input[type=range]") !== null`)
	b.script("move a weight", `{ const s = document.querySelector("input[type=range]"); s.value = 0; s.dispatchEvent(new Event("input", {bubbles: true})); }`)
	b.reads("Nothing is written.")
	b.open("decision/default/placed?filter=sim-41")
	b.reads("untolerated taint")
	b.shoot("decision")

	// How far workloads have come, who answers, and what was told.
	b.do("press w", chromedp.KeyEvent("w"))
	b.click("default/giant")
	b.reads("0 of 2 are ready")
	b.reads("0/500 nodes are available")
	b.shoot("workloads")
	b.do("press s", chromedp.KeyEvent("s"))
	b.reads("nobody: it has no endpoints")
	b.click("default/nobody")
	b.reads("no pod of namespace default has its labels: app=nobody")
	b.open("services/default/web")
	b.reads("300 endpoints answer")
	b.shoot("services")
	b.do("press e", chromedp.KeyEvent("e"))
	b.click("FailedScheduling")
	b.click("Pod/default/hungry")
	b.reads("default/hungry")
	b.open("events?filter=Pod/default/hungry")
	b.reads("1 Pod")
	b.open("events?open=Warning/FailedScheduling/Pod")
	b.reads("kubectl events --all-namespaces")
	b.shoot("events")

	b.do("press o", chromedp.KeyEvent("o"))
	b.reads("None is yours yet")
	b.click("PodFitsResources")
	b.reads("decides now")
	b.shoot("policies")
	b.pushed(c)
	b.do("press r", chromedp.KeyEvent("r"))
	b.reads("Decides for pods with the schedulerName")
	b.shoot("profiles")

	// A host that restarts: the tab says so, stays signed in, and goes on.
	b.do("press t", chromedp.KeyEvent("t"))
	b.reads("500 nodes")
	c.stop()
	b.reads("Not connected")
	c.start()
	b.sees("the host again", `!document.body.innerText.includes("Not connected") && document.body.innerText.includes("500 nodes")`)
	c.run("", "kubectl", "run", "landed", "--image=example.test/new:1", "--labels=app=newcomer")
	b.reads("newcomer")

	if said := b.complained(); said != "" {
		t.Errorf("the browser complained:\n%s", said)
	}
}

// pushed pushes a policy by clicks, tries another version of it as a canary, rolls that
// back, tries it again, and promotes it.
func (b *browser) pushed(c *cluster) {
	b.t.Helper()
	modules := map[string]string{"v1": c.module("node.Requested(\"pods\")"), "v2": c.module("110 - node.Requested(\"pods\")")}
	push := func(version, share string) {
		b.open("policies?push=module")
		b.reads("Drop a .wasm here")
		b.script("drop "+version, fmt.Sprintf(`{
			const bytes = Uint8Array.from(atob(%q), (c) => c.charCodeAt(0));
			const dropped = new DataTransfer();
			dropped.items.add(new File([bytes], "fill.wasm"));
			document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true }));
		}`, modules[version]))
		b.reads("Uploaded, vetted and compiled")
		b.sees("the form", `document.querySelector("section form input") !== null`)
		if share != "0" {
			b.script("a share of "+share, fmt.Sprintf(`{ const s = [...document.querySelectorAll("select")].at(-1); s.value = %q; s.dispatchEvent(new Event("change", { bubbles: true })); }`, share))
		}
		b.click("Rehearse")
		b.reads("were made again")
	}
	push("v1", "0")
	b.shoot("push")
	b.click("Make it live")
	b.click("See fill")
	b.reads("1 policy of yours")
	b.reads("decides now")

	push("v2", "10")
	b.click("Let it decide 10 %")
	b.click("See fill")
	b.reads("decides 10 % of the pods")
	b.click("Roll back")
	b.click("Yes, now")
	b.sees("the canary gone", `!document.body.innerText.includes("decides 10 % of the pods")`)

	push("v2", "50")
	b.click("Let it decide 50 %")
	b.click("See fill")
	b.click("Promote")
	b.click("Yes, now")
	b.reads("Promoted, decides now")
	b.click("Make live again")
	b.click("Yes, now")
	b.reads("RolledBack, decides now")
	b.shoot("history")
}

// What is shown is never markup, whoever wrote it.
func TestHostileTexts(t *testing.T) {
	c := newCluster(t)
	b := newBrowser(t)
	// Each string that the host answers is another's attempt to be a script.
	const hostile = `<img src=x onerror="window.struck=1"><script>window.struck=1</script>'\"javascript:window.struck=1`
	stub := fmt.Sprintf(`{
		const real = fetch;
		const spoil = (v, k) => typeof v === "string" && !["since", "phase"].includes(k) ? v + %q : Array.isArray(v) ? v.map((x) => spoil(x, k))
			: v && typeof v === "object" ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, spoil(x, k)])) : v;
		window.fetch = async (path, ...rest) => {
			const answer = await real(path, ...rest);
			if (!answer.ok || !/explain|policies|profiles|stream|service/.test(path)) return answer;
			if (!/stream/.test(path)) return new Response(JSON.stringify(spoil(await answer.json())));
			const lines = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(new TransformStream({
				transform(text, to) { this.rest = (this.rest || "") + text; const parts = this.rest.split("\n"); this.rest = parts.pop();
					for (const line of parts) to.enqueue(JSON.stringify(spoil(JSON.parse(line))) + "\n"); },
			}));
			return new Response(lines.pipeThrough(new TextEncoderStream()));
		};
	}`, hostile)
	call(b, "spoil what comes", page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: stub})
	c.run(workload(), "kubectl", "apply", "-f", "-")
	c.run("", "kubectl", "wait", "--for=condition=PodScheduled=false", "pod/hungry", "--timeout=90s")
	b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console")))
	b.reads("berth-admin") // the code has been read from the address
	for _, view := range []string{"topology", "pending", "decision/default/hungry", "decision/default/placed", "workloads", "services", "services/default/web", "events", "policies", "policies/PodFitsResources", "profiles"} {
		b.open(view)
		b.reads("<img src=x")
		b.sees("no markup of others", `!window.struck && !document.querySelector("main img, main script, [onerror], [href^='javascript']")`)
	}
	if said := b.complained(); said != "" {
		t.Errorf("the browser complained:\n%s", said)
	}
}
