// The console: who is signed in, which view is shown, and the keys.

import { html, render, useEffect, useLayoutEffect, useState } from "./vendor/preact.js";
import { get, signIn, signOut } from "./api.js";
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
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  return { name, path: rest, query: Object.fromEntries(new URLSearchParams(query)) };
}

function App() {
  const [session, setSession] = useState({});
  const [at, setAt] = useState(where);
  const [help, setHelp] = useState(false);
  useEffect(() => {
    const moved = () => (code() ? location.reload() : setAt(where())); // a code opened in this tab signs in anew
    addEventListener("hashchange", moved);
    enter().then((who) => { setAt(where()); setSession(who); });
    return () => removeEventListener("hashchange", moved);
  }, []);
  // Keys work from the moment at which the views are shown, not from the next frame on.
  useLayoutEffect(() => {
    const pressed = (event) => {
      if (event.key === "Escape") { setHelp(false); document.activeElement.blur(); }
      if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
      const view = views.find((v) => v.key === event.key && session.views?.[v.name]);
      if (view) location.hash = link([view.name]);
      if (event.key === "?") setHelp((shown) => !shown);
      if (event.key === "/" && document.getElementById("filter")) { event.preventDefault(); document.getElementById("filter").focus(); }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [session]);

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
      <dt><kbd>/</kbd></dt><dd>filter</dd><dt><kbd>?</kbd></dt><dd>these keys</dd><dt><kbd>Esc</kbd></dt><dd>away</dd></dl></aside>`}
    <main>${current
      ? html`<${current.view} key=${current.name} path=${at.path} query=${at.query} session=${session} />`
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
// of the history, and tells who is signed in.
async function enter() {
  const given = code();
  if (given) history.replaceState(null, "", location.pathname);
  try {
    if (given) await signIn(given);
    return await get("/console/v1/session");
  } catch (error) {
    return { error };
  }
}

async function leave() {
  await signOut();
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
