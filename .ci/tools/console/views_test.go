package console

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// asksWhere has the topology show what policies say of each node for a pod, by keys
// alone.
func (b *browser) asksWhere() {
	b.t.Helper()
	b.click("On the topology")
	b.reads("Where could a pod go?")
	b.sees("policies", `document.querySelectorAll(".says button").length > 3`)
	b.script("focus a predicate", `[...document.querySelectorAll(".says button")].find((e) => e.innerText.includes("PodToleratesNodeTaints")).focus()`)
	b.reads("untolerated taint")
	b.sees("a cross on the nodes that it refuses", `document.querySelector(".says button[aria-pressed=true]").innerText.includes("refuses")`)
	b.script("choose a priority", `[...document.querySelectorAll(".says button")].find((e) => e.innerText.includes("LeastRequestedPriority")).click()`)
	b.sees("that in the address", `location.hash.includes("policy=") && location.hash.includes("fill=score")`)
	b.script("away from it", "document.activeElement.blur()")
	b.looks("topology-verdicts")
}

// drop drops a file, of data in base64, on the n-th place for one.
func (b *browser) drop(n int, name, data string) {
	b.t.Helper()
	b.script("drop "+name, fmt.Sprintf(`{
		const dropped = new DataTransfer();
		dropped.items.add(new File([Uint8Array.from(atob(%q), (c) => c.charCodeAt(0))], %q));
		document.querySelectorAll(".drop")[%d].dispatchEvent(new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true }));
	}`, data, name, n))
}

// plans drops a manifest and a module, and sees where pods would go by either.
func (b *browser) plans(c *cluster) {
	b.t.Helper()
	b.script("away from fields", "document.activeElement.blur()")
	b.do("press n", chromedp.KeyEvent("n"))
	b.reads("Pods, in YAML or JSON")
	plan := func() { b.script("plan", `document.querySelector("form.plan").requestSubmit()`) }
	var pods strings.Builder
	for _, pod := range [][2]string{{"small", "1"}, {"another", "2"}, {"whale", "640"}} {
		fmt.Fprintf(&pods, "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, image: example.test/x:1, resources: {requests: {cpu: %q}}}]}}\n", pod[0], pod[1])
	}
	b.drop(0, "pods.yaml", base64.StdEncoding.EncodeToString([]byte(pods.String())))
	b.sees("the manifest", `document.querySelector("#manifest").value.includes("whale")`)
	plan()
	b.reads("2 pods would get a node, 1 none")
	b.reads("default/whale")
	b.drop(1, "fill.wasm", c.module("node.Requested(\"pods\")"))
	b.reads("a new one, in the profile default")
	plan()
	b.reads("With fill of fill.wasm: 2 pods would get a node, 1 none")
	b.sees("two topologies", `document.querySelectorAll(".two canvas").length === 2`)
	b.script("to the answer", `document.querySelector(".answer").scrollIntoView()`)
	b.looks("plan")
	b.script("a manifest of something else", `{ const m = document.querySelector("#manifest"); m.value = "kind: Deployment"; m.dispatchEvent(new Event("input", { bubbles: true })); }`)
	b.sees("that it was taken", `document.querySelector("#manifest").value === "kind: Deployment"`)
	plan()
	b.reads("it is a Deployment: a plan is for pods")
}

// looksBack moves the slider over time, and opens a decision as it was.
func (b *browser) looksBack() {
	b.t.Helper()
	b.do("press i", chromedp.KeyEvent("i"))
	b.reads("500 nodes, 1,201 pods")
	b.click("One decision back")
	b.reads("As it was at")
	b.looks("time")
	b.script("back to the beginning", `{ const s = document.querySelector(".time input"); s.value = s.min; s.dispatchEvent(new Event("input", { bubbles: true })); }`)
	b.sees("fewer pods", `(() => { const m = document.querySelector("aside h2")?.innerText.match(/([\d,]+) pods?/); return m && Number(m[1].replaceAll(",", "")) < 1201; })()`)
	b.click("Now")
	b.sees("now again", `document.querySelector(".time output")?.innerText.includes("Now")`)
	b.script("a decision", `document.querySelector("td a[href*='number=']").click()`)
	b.reads("This is decision")
	b.reads("the cluster then")
}

// TestLogsAndAShell plays a container whose log and shell write what attackers would,
// and hears what the shell is told.
func TestLogsAndAShell(t *testing.T) {
	c := newCluster(t)
	b := newBrowser(t)
	call(b, "play a container", page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `{
		const real = fetch;
		const hostile = "<img src=x onerror='window.struck=1'><script>window.struck=1</script>";
		window.fetch = async (path, ...rest) => /\/log\?/.test(path)
			? new Response("plain\n10 %\r20 %\n\x1b[31mred\x1b[0m and \x1b]0;title\x07\x1b[2Jcalm\n" + hostile + "\n") : real(path, ...rest);
		window.WebSocket = class {
			constructor(url, protocols) {
				window.opened = [String(url), protocols.join()];
				setTimeout(() => { this.onopen(); this.say(1, "$ "); });
			}
			say(channel, text) { this.onmessage({ data: new Uint8Array([channel, ...new TextEncoder().encode(text)]).buffer }); }
			send(bytes) {
				const text = new TextDecoder().decode(bytes.slice(1));
				if (bytes[0] === 0) this.say(1, text.replace("\n", "\r\n") + hostile + "\r\n$ ");
				if (text === "\x04") { this.say(3, JSON.stringify({ status: "Failure", message: "command terminated with exit code 3" + hostile })); this.close(); }
			}
			close() { this.onclose(); }
		};
	}`})
	c.run(workload(), "kubectl", "apply", "-f", "-")
	c.run("", "kubectl", "wait", "--for=condition=PodScheduled", "pod/placed", "--timeout=90s")
	b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console", "--write")))
	b.reads("berth-admin")
	b.do("press l", chromedp.KeyEvent("l"))
	b.reads("Or come from a pod")
	b.open("logs/default/placed")
	b.sees("what was written over", `document.querySelector(".terminal").innerText.includes("20 %") && !document.querySelector(".terminal").innerText.includes("10 %")`)
	b.sees("a colour", `document.querySelector(".terminal .t-red")?.innerText === "red"`)
	b.sees("no trace of other sequences", `document.querySelector(".terminal").innerText.includes("red and calm")`)
	b.script("run a shell", `[...document.querySelectorAll("form.controls")].find((f) => f.innerText.includes("Command")).requestSubmit()`)
	b.reads("It runs.")
	b.sees("where it went", `opened[0].startsWith("wss://") && opened[0].includes("/pods/placed/exec?container=c&") && opened[0].includes("command=sh") && /^v5\.channel\.k8s\.io,berth-console\.[A-Z2-7]{26}$/.test(opened[1])`)
	b.script("a line", `{ const i = document.querySelector(".line-in input"); i.value = "echo hello"; i.dispatchEvent(new Event("input", { bubbles: true })); }`)
	b.sees("that it was taken", `document.querySelector(".line-in input").value === "echo hello"`)
	b.script("enter", `document.querySelector(".line-in").requestSubmit()`)
	b.reads("$ echo hello")
	b.looks("logs")
	b.click("Ctrl-D")
	b.reads("It ended: command terminated with exit code 3")
	b.sees("no markup of others", `!window.struck && !document.querySelector("main img, main script, [onerror]") && document.body.innerText.includes("<img src=x")`)
	if said := b.complained(); said != "" {
		t.Errorf("the browser complained:\n%s", said)
	}
}
