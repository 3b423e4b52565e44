// The console: who is signed in, which view is shown, and the keys.

import { html, render, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { get, onKey, signIn, signOut } from "./api.js";
import { Decision } from "./decision.js";
import { Events } from "./events.js";
import { Logs } from "./logs.js";
import { Notice, Trouble, Waiting, link } from "./parts.js";
import { Pending } from "./pending.js";
import { Plan } from "./plan.js";
import { Policies } from "./policies.js";
import { Profiles } from "./profiles.js";
import { Services } from "./services.js";
import { Time } from "./time.js";
import { Topology } from "./topology.js";
import { Workloads } from "./workloads.js";

const views = [
  { name: "topology", key: "t", title: "Topology", view: Topology },
  { name: "pending", key: "p", title: "Pending", view: Pending },
  { name: "decision", key: "d", title: "Decision", view: Decision },
  { name: "plan", key: "n", title: "Plan", view: Plan },
  { name: "time", key: "i", title: "Time", view: Time },
  { name: "workloads", key: "w", title: "Workloads", view: Workloads },
  { name: "services", key: "s", title: "Services", view: Services },
  { name: "events", key: "e", title: "Events", view: Events },
  { name: "logs", key: "l", title: "Logs", view: Logs },
  { name: "policies", key: "o", title: "Policies", view: Policies },
  { name: "profiles", key: "r", title: "Profiles", view: Profiles },
];

// where reads the address: #/view/part/part?name=value.
function where() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decoded);
  return { name, path: rest, query: Object.fromEntries(new URLSearchParams(query)) };
}

// decoded is a part of an address; what is no encoding is taken as it stands.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function App() {
  const [session, setSession] = useState({});
  const [at, setAt] = useState(where);
  const [help, setHelp] = useState(false);
  const [keys, setKeys] = useState(localStorage.getItem("keys") !== "off");
  useEffect(() => {
    const moved = () => (code() ? location.reload() : setAt(where())); // a code opened in this tab signs in anew
    const ending = new AbortController();
    const come = () => enter(setSession, ending.signal).then((who) => { setAt(where()); setSession({ ...who, since: performance.now() }); });
    addEventListener("hashchange", moved, { signal: ending.signal });
    onKey(come, ending.signal); // another tab has signed in, or out
    come();
    return () => ending.abort();
  }, []);
  // Keys work from the moment at which the views are shown, not from the next frame on.
  useLayoutEffect(() => {
    const pressed = (event) => {
      if (event.key === "Escape") { setHelp(false); document.activeElement.blur(); }
      if (!keys || event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
      const view = views.find((v) => v.key === event.key && session.views?.[v.name]);
      if (view) location.hash = link([view.name]);
      if (event.key === "?") setHelp((shown) => !shown);
      if (event.key === "/" && document.getElementById("filter")) { event.preventDefault(); document.getElementById("filter").focus(); }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [session, keys]);

  // Who goes to another view goes on in it, and hears which it is.
  const shown = useRef();
  useEffect(() => {
    if (shown.current) document.querySelector("main").focus({ preventScroll: true });
    shown.current = session.views && (at.name || "first");
  }, [at.name, !session.views]);

  useEffect(() => {
    show();
    addEventListener("resize", show);
    return () => removeEventListener("resize", show);
  }, [at.name, session]);

  if (session.error) return html`<main><${Trouble} error=${session.error} /></main>`;
  if (!session.views) return html`<main><${Waiting}>Signing in<//></main>`;
  const open = views.filter((v) => session.views[v.name]);
  const current = open.find((v) => v.name === (at.name || open[0].name));
  document.title = current ? `${current.title} · Berth` : "Berth";
  return html`
    <header>
      <a class="brand" href="#/">Berth</a>
      <nav aria-label="Views">${open.map((v) => html`<a key=${v.name} href=${link([v.name])} aria-current=${v === current ? "page" : null} aria-keyshortcuts=${v.key}>${v.title}</a>`)}</nav>
      <span class="who" title=${(session.groups || []).join(", ")}>${session.user}${session.write ? "" : " · reads only"}</span>
      <button type="button" onClick=${theme} aria-label="Light or dark">◐</button>
      <button type="button" onClick=${() => setHelp(!help)} aria-label="Keys" aria-keyshortcuts="?">?</button>
      <button type="button" onClick=${leave}>Sign out</button>
    </header>
    ${help && html`<aside class="help card"><h2>Keys</h2><dl>${open.map((v) => html`<dt key=${v.key}><kbd>${v.key}</kbd></dt><dd>${v.title}</dd>`)}
      <dt><kbd>/</kbd></dt><dd>filter</dd><dt><kbd>?</kbd></dt><dd>these keys</dd><dt><kbd>Esc</kbd></dt><dd>away</dd></dl>
      <label><input type="checkbox" checked=${keys} onChange=${(e) => { localStorage.setItem("keys", e.target.checked ? "on" : "off"); setKeys(e.target.checked); }} /> these keys do that</label></aside>`}
    <main tabindex="-1" aria-label=${current?.title}>${current
      ? html`<${current.view} key=${current.name + session.since} path=${at.path} query=${at.query} session=${session} />`
      : html`<${Notice} title="No such view">There is none at this address that you may see.<//>`}</main>`;
}

// show moves the tabs until that of the current view is in sight.
function show() {
  const tab = document.querySelector("nav [aria-current]");
  if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;
}

// code is that of a new session, where the address holds one.
const code = () => location.hash.match(/^#code=(\w+)$/)?.[1];

// enter makes a session of the code in the address, where there is one, takes it out
// of the history, and tells who is signed in. A host that is not reached is asked again,
// which tell is told.
async function enter(tell, signal) {
  let given = code();
  if (given) history.replaceState(null, "", location.pathname);
  for (;;) {
    try {
      if (given) await signIn(given);
      given = "";
      return await get("/console/v1/session");
    } catch (error) {
      if (error.status !== 0 || signal.aborted) return { error };
      tell({ error });
      await new Promise((done) => setTimeout(done, 3000));
    }
  }
}

async function leave() {
  await signOut().catch(() => {}); // without its key nobody is signed in here
  location.reload();
}

// A file that is dropped beside the fields for one does not take the page's place.
for (const type of ["dragover", "drop"]) addEventListener(type, (event) => event.preventDefault());

// theme turns light to dark and back; without it the system's is followed.
function theme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  keep(dark ? "light" : "dark");
  dispatchEvent(new Event("theme"));
}

function keep(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  if (theme) localStorage.setItem("theme", theme);
}

keep(localStorage.getItem("theme"));
render(html`<${App} />`, document.body);
