package console

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// faulty plays a host that is away, or refuses, as a test says: by window.answers for the
// page as it is, by sessionStorage for the one after it, too. cut ends what goes on.
const faulty = `{
	const real = fetch;
	let cuts = new AbortController();
	window.cut = (status) => { window.answers = status; cuts.abort(); cuts = new AbortController(); };
	window.fetch = async (path, options = {}) => {
		if (window.answers === "away" || sessionStorage.away) throw new TypeError("away");
		if (window.answers) return new Response("it is withdrawn", { status: window.answers });
		const made = await window.plays?.(String(path), options);
		if (made) return made;
		return real(path, { ...options, signal: options.signal ? AbortSignal.any([options.signal, cuts.signal]) : cuts.signal });
	};
}`

func (b *browser) faulty(c *cluster, more string) {
	b.t.Helper()
	call(b, "a host that fails", page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: faulty + more})
	b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console", "--write")))
	b.reads("1 node")
}

// evaluates runs a script that ends in a promise of a text, and wants that.
func (b *browser) evaluates(what, script, want string) {
	b.t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	if err != nil || got != want {
		b.t.Errorf("%s: %q, %v, want %q", what, got, err, want)
	}
}

// What ended, was withdrawn or cannot be reached is told as that, and comes back.
func TestTheEndsOfASession(t *testing.T) {
	c := newClusterOf(t, 1)
	b := newBrowser(t)
	b.faulty(c, "")

	b.script("withdraw the right", "cut(403)")
	b.reads("Not yours to see")
	b.sees("no nodes beside that", `!document.querySelector("main canvas")`)
	b.script("grant it again", "cut()")
	b.reads("1 node")
	b.script("end the session", "cut(401)")
	b.reads("Signed out")
	b.sees("no nodes beside that", `!document.querySelector("main canvas")`)
	b.script("sign in in another tab", `cut(); dispatchEvent(new StorageEvent("storage", { key: "berth-key", newValue: "another" }))`)
	b.reads("1 node")

	b.script("the host goes away", `cut("away")`)
	b.open("decision/default/none")
	b.reads("Not connected")
	b.script("it comes back", "cut()")
	b.reads("Not there")
	b.script("it is away when the page is opened", "sessionStorage.away = 1; location.reload()")
	b.reads("Not connected")
	b.script("it comes back", "delete sessionStorage.away")
	b.reads("Not there")

	b.open("pending/%E0%A4%A")
	b.reads("No pod waits for a node")

	b.script("the host goes away", `cut("away")`)
	b.click("Sign out")
	b.reads("Signed out")
	b.sees("no key", `localStorage.getItem("berth-key") === null`)
	if said := b.complained(); said != "" {
		t.Errorf("the browser complained:\n%s", said)
	}
}

// A connection that says nothing is no connection, whatever the browser holds of it.
func TestSilenceIsNoticed(t *testing.T) {
	c := newClusterOf(t, 1)
	b := newBrowser(t)
	b.faulty(c, "")
	const short = `
		const [late, limit] = [window.setTimeout, AbortSignal.timeout];
		window.setTimeout = (f, ms) => late(f, ms / 500);
		AbortSignal.timeout = (ms) => limit.call(AbortSignal, ms / 500);
		const never = (signal) => new Promise((_, failed) => signal.addEventListener("abort", () => failed(signal.reason)));`
	b.evaluates("a stream that falls silent", `import("/console/api.js").then(async ({ stream }) => {`+short+`
		let asked = 0;
		window.plays = async (path, { signal }) => {
			if (!path.includes("view=silent")) return;
			asked++;
			return new Response(new ReadableStream({ start(to) {
				to.enqueue(new TextEncoder().encode("{}\n"));
				signal.addEventListener("abort", () => to.error(signal.reason));
			} }));
		};
		const said = [];
		await new Promise((done) => { const stop = stream("silent", {}, () => {}, (state) => {
			said.push(state.message || state);
			if (asked === 2) { stop(); done(); }
		}); });
		return said.join();
	})`, "live,the connection was lost,live")
	b.evaluates("an answer that does not come", `import("/console/api.js").then(async ({ get }) => {`+short+`
		window.plays = (path, { signal }) => path === "/never" && never(signal);
		return get("/never").then(() => "an answer", (error) => error.status + " " + error.message);
	})`, "0 the host does not answer")
}

// What is rehearsed is what would decide, and a policy that decides nothing is not said
// to decide.
func TestAPushGoesByItsPolicy(t *testing.T) {
	c := newClusterOf(t, 1)
	b := newBrowser(t)
	b.faulty(c, `{
		window.mode = "Shadow";
		const made = () => ({ metadata: { name: "made", generation: 1 }, spec: { module: "sha256-11", entry: "Second", mode: window.mode },
			status: { kind: "predicate", phase: window.mode === "Off" ? "Off" : "Live", observedGeneration: 1, live: "sha256-11", current: { module: "sha256-11", entry: "Second", since: "2026-11-01T12:00:00Z", reason: "Pushed" } } });
		const json = (value) => new Response(JSON.stringify(value));
		window.plays = (path, { method, body }) => {
			if (path.endsWith("/modules")) return json({ metadata: { name: "sha256-22" }, status: { entries: ["First", "Second"].map((name) => ({ name, kind: "predicate" })) } });
			if (path.endsWith("/policies") && path.startsWith("/apis")) return json({ items: [made()] });
			if (path.endsWith("/policies/made")) return json(made());
			if (path.endsWith("/rehearsal")) { window.rehearsed = JSON.parse(body).policies[0].entry; return json({ decisions: 1, changed: 0 }); }
		};
	}`)
	push := func() {
		b.open("policies")
		b.reads("Push a module")
		b.open("policies?push=module")
		b.reads("Drop a .wasm here")
		b.drop(0, "made.wasm", "AGFzbQ==")
		b.reads("It takes the place of")
	}
	choose := func(entry string) {
		b.script("choose "+entry, fmt.Sprintf(`{ const s = document.querySelector("section select"); s.value = %q; s.dispatchEvent(new Event("change", { bubbles: true })); }`, entry))
		b.sees("that it was taken", fmt.Sprintf(`document.querySelector("section select").value === %q`, entry))
	}
	push()
	b.sees("what the policy runs", `document.querySelector("section select").value === "Second"`)
	b.sees("a canary of it", `document.body.innerText.includes("as a canary")`)
	choose("First")
	b.sees("no canary of another", `!document.body.innerText.includes("as a canary")`)
	choose("Second")
	b.click("Rehearse")
	b.reads("were made again")
	b.sees("a rehearsal of that", `window.rehearsed === "Second"`)
	b.click("Make it live")
	b.reads("made is a shadow, which decides nothing")
	b.click("See made")
	b.reads("Pushed, a shadow, which decides nothing")
	b.script("turn it off", `window.mode = "Off"`)
	push()
	b.click("Rehearse")
	b.click("Make it live")
	b.reads("made is written, and off")
	if said := b.complained(); said != "" {
		t.Errorf("the browser complained:\n%s", said)
	}
}

// One shell is opened at a time, and a line of many colours does not hang the page.
func TestAShellThatOpensIsOne(t *testing.T) {
	c := newClusterOf(t, 1)
	b := newBrowser(t)
	b.faulty(c, `{
		window.opened = [];
		window.WebSocket = class { constructor() { window.opened.push(this); } send() {} close() { this.onclose(); } };
		window.plays = (path) => path.includes("/console/v1/pod?")
			&& new Response(JSON.stringify({ phase: "Running", node: "n", exec: true, containers: [{ name: "c", state: "running" }] }));
	}`)
	b.open("logs/default/placed")
	b.reads("Run it in c")
	run := `[...document.querySelectorAll("form.controls")].find((f) => f.innerText.includes("Command")).requestSubmit()`
	b.script("run a shell", run)
	b.reads("Opening …")
	b.sees("that the button waits", `[...document.querySelectorAll("button")].find((e) => e.innerText.includes("Run it in")).disabled`)
	b.script("once more", run)
	b.sees("one of them", `window.opened.length === 1`)
	b.script("it ends, and another opens", `window.opened[0].onclose()`)
	b.reads("It could not be opened")
	b.script("run a shell", run)
	b.sees("another", `window.opened.length === 2`)
	b.script("the second opens, and then the first says that it has ended", `window.opened[1].onopen(); window.opened[0].onclose()`)
	b.reads("It runs.")

	b.evaluates("a line of 4,000 colours", `import("/console/terminal.js").then(({ spans }) => {
		const all = spans(Array.from({ length: 4000 }, (_, i) => "\x1b[3" + i % 8 + "mx").join(""));
		return [all.length, all.map((s) => s.text).join("").length].join();
	})`, "300,4000")
}

// Who hears the pages hears which node is chosen and which view is shown, and may turn
// the keys off that his own program uses.
func TestWhatIsHeard(t *testing.T) {
	c := newClusterOf(t, 1)
	b := newBrowser(t)
	b.faulty(c, "")
	b.sees("that arrow keys are the page's", `document.querySelector("canvas").getAttribute("role") === "application"`)
	b.script("to the nodes", `document.querySelector("canvas").focus()`)
	b.do("press an arrow", chromedp.KeyEvent(kb.ArrowRight))
	b.sees("the chosen node said", `document.querySelector("[role=status].unseen").innerText.startsWith("sim-0: cpu 0 %")`)
	b.do("press p", chromedp.KeyEvent("p"))
	b.sees("the focus in the view", `document.activeElement === document.querySelector("main[aria-label=Pending]")`)
	b.do("press ?", chromedp.KeyEvent("?"))
	b.script("turn the keys off", `document.querySelector(".help input").click()`)
	b.sees("that they are off", `localStorage.getItem("keys") === "off"`)
	b.script("away from it", "document.activeElement.blur()")
	b.evaluates("the view after a key that is off", `Promise.resolve(document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "e", bubbles: true }))).then(() => location.hash)`, "#/pending")
	b.looks("keys")
	if said := b.complained(); said != "" {
		t.Errorf("the browser complained:\n%s", said)
	}
}
