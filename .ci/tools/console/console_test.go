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
	call(b, "keep the focus", emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
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

// looks checks the view that is shown, light and dark and on a narrow screen, and
// keeps pictures of it where they are asked for.
func (b *browser) looks(name string) {
	b.t.Helper()
	for _, theme := range []string{"dark", "light"} {
		call(b, theme, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		b.audit(name + ", " + theme)
		b.shoot(name + "-" + theme)
	}
	call(b, "a telephone", emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 400, Height: 800, DeviceScaleFactor: 1})
	b.sees("its tab", `(() => { const tab = document.querySelector("nav [aria-current]").getBoundingClientRect(); return tab.left >= 0 && tab.right <= innerWidth; })()`)
	b.audit(name + ", narrow")
	b.shoot(name + "-narrow")
	call(b, "no telephone", emulation.ClearDeviceMetricsOverride, cdp.Empty{})
}

// audit has axe-core find what keeps people from using the view.
func (b *browser) audit(view string) {
	b.t.Helper()
	source, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		b.t.Fatalf("axe-core: %v: run `./task console-test`", err)
	}
	b.script("axe-core", "if (!window.axe) {"+string(source)+"}")
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[string](`axe.run({ resultTypes: ["violations"] }).then(({ violations, passes }) =>
		passes.length < 5 ? "axe-core checked nothing" : violations.map((v) => v.id + " (" + v.help + "): " + v.nodes.map((n) => n.html).join("; ")).join("\n"))`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("axe-core on %s: %v", view, err)
	}
	if found != "" {
		b.t.Errorf("%s:\n%.2000s", view, found)
	}
}

// shoot keeps a picture of what is seen, where they are asked for.
func (b *browser) shoot(name string) {
	b.t.Helper()
	if dir := os.Getenv("SHOTS"); dir != "" {
		b.capture(filepath.Join(dir, name+".png"))
	}
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
	b.looks("topology")
	b.open("topology?label=kubernetes.io/hostname")
	b.sees("many groups on one screen", `document.querySelector("canvas[aria-busy=false]")?.offsetHeight < 1000`)

	// Why is it pending, in three clicks: the view, the reason, the pod.
	b.click("Pending")
	b.click("Insufficient cpu")
	b.reads("request less cpu")
	b.looks("pending")
	b.click("default/hungry")
	b.reads("What would place it")
	b.looks("decision-pending")

	// A pod that was placed, and other weights.
	b.open("decision/default/placed")
	b.reads("It is on sim-")
	b.sees("a slider", `document.querySelector("input[type=range]") !== null`)
	b.script("move a weight", `{ const s = document.querySelector("input[type=range]"); s.value = 0; s.dispatchEvent(new Event("input", {bubbles: true})); }`)
	b.reads("Nothing is written.")
	b.open("decision/default/placed?filter=sim-41")
	b.reads("untolerated taint")
	b.looks("decision")
	b.asksWhere()
	b.plans(c)
	b.looksBack()
	b.reads("default/")

	// How far workloads have come, who answers, and what was told.
	b.do("press w", chromedp.KeyEvent("w"))
	b.click("default/giant")
	b.reads("0 of 2 are ready")
	b.reads("0/500 nodes are available")
	b.looks("workloads")
	b.do("press s", chromedp.KeyEvent("s"))
	b.reads("nobody: it has no endpoints")
	b.click("default/nobody")
	b.reads("no pod of namespace default has its labels: app=nobody")
	b.open("services/default/web")
	b.reads("300 endpoints answer")
	b.looks("services")
	b.do("press e", chromedp.KeyEvent("e"))
	b.click("FailedScheduling")
	b.click("Pod/default/hungry")
	b.reads("default/hungry")
	b.open("events?filter=Pod/default/hungry")
	b.reads("1 Pod")
	b.open("events?open=Warning/FailedScheduling/Pod")
	b.reads("kubectl events --all-namespaces")
	b.looks("events")

	b.do("press o", chromedp.KeyEvent("o"))
	b.reads("None is yours yet")
	b.click("PodFitsResources")
	b.reads("decides now")
	b.looks("policies")
	b.pushed(c)
	b.do("press r", chromedp.KeyEvent("r"))
	b.reads("Decides for pods with the schedulerName")
	b.looks("profiles")

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
		b.drop(0, "fill.wasm", modules[version])
		b.reads("Uploaded, vetted and compiled")
		b.sees("the form", `document.querySelector("section form input") !== null`)
		if share != "0" {
			b.script("a share of "+share, fmt.Sprintf(`{ const s = [...document.querySelectorAll("select")].at(-1); s.value = %q; s.dispatchEvent(new Event("change", { bubbles: true })); }`, share))
		}
		b.click("Rehearse")
		b.reads("were made again")
	}
	push("v1", "0")
	b.looks("push")
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
	b.looks("history")
}

// What a page changes it replaces: of a later config nothing is kept that the one made
// live again does not have.
func TestWhatIsChangedIsReplaced(t *testing.T) {
	c := newClusterOf(t, 1)
	b := newBrowser(t)
	b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console")))
	b.reads("1 node")
	sent, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`import("/console/api.js").then(async ({ patch }) => {
		let sent;
		const real = window.fetch;
		window.fetch = async (path, { method, headers, body }) => { sent = [method, path, headers["Content-Type"], body].join(" "); return new Response("{}"); };
		await patch("/policy", { config: { label: "a" }, canary: null }, "7");
		window.fetch = real;
		return sent;
	})`, chromedp.EvalAwaitPromise))
	want := `PATCH /policy application/json-patch+json [{"op":"add","path":"/spec/config","value":{"label":"a"}},` +
		`{"op":"add","path":"/spec/canary","value":null},{"op":"add","path":"/metadata/resourceVersion","value":"7"}]`
	if err != nil || sent != want {
		t.Errorf("the page sends %s, %v, want %s", sent, err, want)
	}
}

// The first picture comes in slices, of which none is news; what lands later is.
func TestTheFirstPictureDoesNotGlow(t *testing.T) {
	c := newClusterOf(t, 1)
	b := newBrowser(t)
	b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console")))
	b.reads("1 node")
	glowing, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`import("/console/grid.js").then(({ empty, told, inOrder }) => {
		const cluster = empty();
		const node = (slot, name) => ({ slot: [slot], name: [name], group: ["a"], state: ["ready"], cpu: [1], memory: [1], pods: [9] });
		const use = (slot, n) => ({ slot: [slot], cpu: [1], memory: [1], apps: [[0, n]] });
		const glowing = () => inOrder(cluster, "").filter((n) => n.landed).map((n) => n.name).join();
		told(cluster, { reset: true, more: true, apps: ["x"], nodes: node(0, "n-10"), use: use(0, 1) });
		told(cluster, { more: true, nodes: node(1, "n-9"), use: use(1, 1) });
		told(cluster, { nodes: node(2, "n-1"), use: use(2, 1) });
		const first = glowing();
		told(cluster, { use: use(0, 2) });
		told(cluster, { gone: [2] });
		return [first, glowing(), inOrder(cluster, "").map((n) => n.name), inOrder(cluster, "10").length].join(" ");
	})`, chromedp.EvalAwaitPromise))
	if want := " n-10 n-9,n-10 1"; err != nil || glowing != want {
		t.Errorf("what glows at first and later, and what is there in order = %q, %v, want %q", glowing, err, want)
	}
}

// A user sees what RBAC lets him list at this moment, and nothing of the rest, counts
// included.
func TestUsersSeeWhatIsTheirs(t *testing.T) {
	c := newClusterOf(t, 3)
	jane := c.user("jane")
	c.run(workload(), "kubectl", "apply", "-f", "-")
	c.run("", "kubectl", "create", "namespace", "team")
	c.run(`
{apiVersion: v1, kind: Service, metadata: {name: ours, namespace: team}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: ours-waits, namespace: team}, spec: {containers: [{name: c, image: example.test/batch:1, resources: {requests: {cpu: "65"}}}]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: look, namespace: team}, rules: [{apiGroups: ["", discovery.k8s.io], resources: [pods, services, endpointslices], verbs: [list]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: look, namespace: team}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: look}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]}
`, "kubectl", "apply", "-f", "-")
	c.run("", "kubectl", "wait", "-n", "team", "--for=condition=PodScheduled=false", "pod/ours-waits", "--timeout=90s")

	b := newBrowser(t)
	b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console", "--write", "--kubeconfig", jane)))
	b.reads("jane · reads only") // she may write no policies
	b.sees("the views that are hers", `[...document.querySelectorAll("nav a")].map((a) => a.innerText).join() === "Pending,Decision,Workloads,Services,Events,Logs"`)
	for _, view := range []string{"plan", "time"} {
		b.open(view)
		b.reads("There is none at this address that you may see")
	}
	b.open("logs/default/hungry")
	b.reads("Not yours to see")
	b.open("logs/team/ours-waits")
	b.reads("it needs to get pods in the namespace team")
	b.open("topology")
	b.reads("There is none at this address that you may see")
	b.open("policies?push=module")
	b.reads("There is none at this address that you may see")
	b.open("pending")
	b.reads("1 pod without a node")
	b.click("Insufficient cpu")
	b.reads("team/ours-waits")
	b.reads("Not yours to see") // what would place it is told by nodes, which she may not list
	b.open("decision/default/hungry")
	b.reads("Not yours to see")
	b.open("services")
	b.reads("team/ours")
	b.sees("no service of others", `!document.body.innerText.includes("default/")`)
	b.open("services/default/web")
	b.reads("There is no service default/web that you may see")
	b.open("workloads")
	b.reads("of those that you may see")
	b.open("events")
	b.reads("None that you may see")
	b.looks("nothing")

	// What is granted comes, and what is withdrawn goes, while she looks.
	b.open("services")
	b.reads("team/ours")
	c.run("", "kubectl", "create", "rolebinding", "look", "--clusterrole=view", "--user=jane", "-n", "default")
	b.reads("default/web")
	b.open("logs/default/hungry")
	b.reads("A shell in it needs")
	b.sees("a log, and no shell", `document.querySelector(".terminal") !== null && !document.body.innerText.includes("Run it in")`)
	b.open("services")
	b.reads("default/web")
	c.run("", "kubectl", "delete", "rolebinding", "look", "-n", "team")
	b.sees("what was withdrawn gone", `document.body.innerText.includes("default/web") && !document.body.innerText.includes("team/ours")`)
	c.run("", "kubectl", "delete", "rolebinding", "look", "-n", "default")
	b.reads("None of those that you may see")
	if said := b.complained(); said != "" {
		t.Errorf("the browser complained:\n%s", said)
	}
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
			if (!answer.ok || !/explain|policies|profiles|stream|service|past|v1.pod[?]|v1.plan/.test(path)) return answer;
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
	for _, view := range []string{"topology", "pending", "decision/default/hungry", "decision/default/placed", "workloads", "services", "services/default/web", "events", "policies", "policies/PodFitsResources", "profiles",
		"topology?pod=default/placed&fill=score", "time", "logs/default/placed"} {
		b.open(view)
		b.reads("<img src=x")
		b.sees("no markup of others", `!window.struck && !document.querySelector("main img, main script, [onerror], [href^='javascript']")`)
	}
	b.open("plan")
	b.reads("Pods, in YAML or JSON")
	b.script("a manifest", `{ const m = document.querySelector("#manifest"); m.value = "{kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x}]}}"; m.dispatchEvent(new Event("input", { bubbles: true })); }`)
	b.sees("that it was taken", `!document.querySelector("form.plan button:not([type])").disabled`)
	b.script("plan", `document.querySelector("form.plan").requestSubmit()`)
	b.sees("where it would go", `[...document.querySelectorAll("td")].some((e) => e.innerText.includes("<img src=x"))`)
	b.sees("no markup of others", `!window.struck && !document.querySelector("main img, main script, [onerror], [href^='javascript']")`)
	if said := b.complained(); said != "" {
		t.Errorf("the browser complained:\n%s", said)
	}
}
