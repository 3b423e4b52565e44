package console

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestANewUsersWay finds out why a pod waits, pushes the tutorial's policy, sees what
// that has changed, and takes it back, all by what the pages offer.
func TestANewUsersWay(t *testing.T) {
	c := newClusterOf(t, 3)
	page, err := os.ReadFile("../../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	_, source, _ := strings.Cut(string(page), "```go main.go\n")
	source, _, ok := strings.Cut(source, "\n```")
	if !ok {
		t.Fatal("the tutorial has no main.go any more")
	}
	module := c.built("gold-only", "predicate", source)
	run := func(pod string, more ...string) {
		c.run("", "kubectl", append([]string{"run", pod, "--image=example.test/x:1"}, more...)...)
	}
	c.run("", "kubectl", "label", "node", "sim-0", "tier=gold")
	for i := range 6 { // of which one goes to each node
		run(fmt.Sprint("before-", i))
		c.run("", "kubectl", "wait", "--for=condition=PodScheduled", fmt.Sprint("pod/before-", i), "--timeout=90s")
	}
	run("hungry", `--overrides={"spec":{"containers":[{"name":"c","image":"example.test/x:1","resources":{"requests":{"cpu":"65"}}}]}}`)
	c.run("", "kubectl", "wait", "--for=condition=PodScheduled=false", "pod/hungry", "--timeout=90s")

	b := newBrowser(t)
	b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console")))
	b.click("Policies")
	b.reads("berth console --write") // how to be allowed to push
	b.do("open the console", chromedp.Navigate(c.run("", os.Getenv("BERTH"), "console", "--write")))
	b.reads("3 nodes")
	b.click("Pending")
	b.click("Insufficient cpu")
	b.reads("request less cpu")
	b.click("default/hungry")
	b.reads("What would place it")

	b.click("Policies")
	b.click("Push a module")
	b.reads("Drop a .wasm here")
	b.script("miss the place for it", `{
		const missed = new DragEvent("drop", { bubbles: true, cancelable: true });
		document.body.dispatchEvent(missed);
		window.kept = missed.defaultPrevented;
	}`)
	b.sees("that the page stays", "window.kept")
	b.drop(0, "gold-only.wasm", module)
	b.reads("Uploaded, vetted and compiled")
	b.click("Rehearse")
	b.reads("would have ended otherwise")
	b.click("Make it live")
	b.click("See gold-only")
	b.reads("Live")

	run("during")
	c.run("", "kubectl", "wait", "--for=condition=PodScheduled", "pod/during", "--timeout=90s")
	b.open("decision/default/during")
	b.reads("node is kept for gold pods")
	b.looks("newuser-decision")
	b.open("policies/gold-only")
	b.click("Turn off")
	b.click("Yes, now")
	b.reads("Turn on")
	b.sees("its phase", `[...document.querySelectorAll("tr.chosen .phase")].some((e) => e.innerText === "Off")`)
	b.looks("newuser-off")
	run("after")
	c.run("", "kubectl", "wait", "--for=condition=PodScheduled", "pod/after", "--timeout=90s")
	b.open("decision/default/after")
	b.reads("3 of 3 nodes can take it")
	b.open("policies/gold-only")
	b.click("Turn on")
	b.click("Yes, now")
	b.sees("it again", `[...document.querySelectorAll("tr.chosen .phase")].some((e) => e.innerText === "Live")`)
	if said := b.complained(); said != "" {
		t.Errorf("the browser complained:\n%s", said)
	}
}
