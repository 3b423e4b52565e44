// The nodes, grouped by a label and filled by what their pods ask for.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { stream } from "./api.js";
import { Commands, Notice, Trouble, Waiting, count, hue, link, percent, replace, shell } from "./parts.js";

const zone = "topology.kubernetes.io/zone";
const labels = [zone, "topology.kubernetes.io/region", "node.kubernetes.io/instance-type", "kubernetes.io/arch", "kubernetes.io/hostname"];

// A cluster is what the stream has told so far.
// Its version changes with each frame, its shape where nodes come, go or are written.
const empty = () => ({ apps: [], nodes: new Map(), version: 0, shape: 0 });

// told takes a frame in: columns of nodes, of their use, and slots that are empty now.
function told(cluster, frame) {
  if (frame.reset) Object.assign(cluster, { ...empty(), version: cluster.version, shape: cluster.shape });
  cluster.apps.push(...(frame.apps || []));
  const n = frame.nodes || {};
  (n.slot || []).forEach((slot, i) => {
    const use = cluster.nodes.get(slot) || { usedCPU: 0, usedMemory: 0, apps: [], pods: 0 };
    cluster.nodes.set(slot, { ...use, slot, name: n.name[i], group: n.group[i], state: n.state[i], cpu: n.cpu[i], memory: n.memory[i], room: n.pods[i] });
  });
  const u = frame.use || {};
  (u.slot || []).forEach((slot, i) => {
    const node = cluster.nodes.get(slot);
    let pods = 0;
    const apps = u.apps[i] || [];
    for (let k = 1; k < apps.length; k += 2) pods += apps[k];
    if (!frame.reset && pods > node.pods) node.landed = performance.now();
    Object.assign(node, { usedCPU: u.cpu[i], usedMemory: u.memory[i], apps, pods });
  });
  for (const slot of frame.gone || []) cluster.nodes.delete(slot);
  cluster.version++;
  if (frame.reset || n.slot || frame.gone) cluster.shape++;
}

// fills say how full a node is, from 0 to 1.
const fills = {
  cpu: (node) => node.usedCPU / (node.cpu || 1),
  memory: (node) => node.usedMemory / (node.memory || 1),
  pods: (node) => node.pods / (node.room || 1),
};

export function Topology({ query }) {
  const label = query.label || zone;
  const fill = fills[query.fill] ? query.fill : "cpu";
  const cluster = useRef(empty());
  const [version, setVersion] = useState(0);
  const [state, setState] = useState("");
  useEffect(() => stream("topology", { label }, (frame) => {
    if (!frame.use) return;
    told(cluster.current, frame);
    setVersion((v) => v + 1);
  }, setState), [label]);

  const filter = query.filter || "";
  const nodes = useMemo(() => {
    const all = [...cluster.current.nodes.values()].filter((n) => n.name.includes(filter) || n.group.includes(filter));
    return all.sort((a, b) => compare(a.group, b.group) || compare(a.name, b.name));
  }, [cluster.current.shape, filter]);
  const change = (more) => replace(link(["topology"], { ...query, ...more }));

  if (state.message && cluster.current.version === 0) return html`<${Trouble} error=${state} />`;
  if (cluster.current.version === 0) return html`<${Waiting}>Looking at the nodes<//>`;
  const chosen = nodes.find((n) => n.name === query.node);
  return html`
    <h1>Topology</h1>
    ${state.message && html`<p class="stale" role="status">Not connected: this is how it was.</p>`}
    <form class="controls" onSubmit=${(e) => e.preventDefault()}>
      <label>Group by <input list="labels" value=${label} onChange=${(e) => change({ label: e.target.value })} /></label>
      <datalist id="labels">${labels.map((l) => html`<option value=${l} />`)}</datalist>
      <fieldset><legend>Fill by</legend>${Object.keys(fills).map((name) => html`
        <label><input type="radio" name="fill" checked=${name === fill} onChange=${() => change({ fill: name })} /> ${name}</label>`)}</fieldset>
      <label>Filter <input id="filter" type="search" value=${filter} onInput=${(e) => change({ filter: e.target.value })} /></label>
    </form>
    ${cluster.current.nodes.size === 0
      ? html`<${Notice} title="No nodes yet">A machine joins by <code>berth agent</code>; <code>berth up --simulate 100</code> plays some.<//>`
      : html`<div class="beside">
          <${Grid} nodes=${nodes} version=${version} cluster=${cluster.current} fill=${fills[fill]} chosen=${query.node} choose=${(node) => change({ node })} />
          <aside>
            ${chosen && html`<${Node} node=${chosen} apps=${cluster.current.apps} close=${() => change({ node: "" })} />`}
            <${Totals} nodes=${nodes} cluster=${cluster.current} fill=${fill} choose=${(node) => change({ node })} />
          </aside>
        </div>`}
    <${Commands} lines=${[`kubectl get nodes --label-columns=${shell(label)}`, ...(chosen ? [`kubectl describe node ${shell(chosen.name)}`] : [])]} />`;
}

// compare has node-2 before node-10.
const { compare } = new Intl.Collator("en", { numeric: true });
const appName = (apps, i) => apps[i] ?? "other";

function Node({ node, apps, close }) {
  return html`<section class="card"><h2>${node.name} <button type="button" onClick=${close} aria-label="Close">×</button></h2>
    <dl>
      <dt>State</dt><dd>${node.state}</dd>
      <dt>Group</dt><dd>${node.group || "–"}</dd>
      <dt>CPU</dt><dd>${node.usedCPU / 1000} of ${node.cpu / 1000}</dd>
      <dt>Memory</dt><dd>${gib(node.usedMemory)} of ${gib(node.memory)} GiB</dd>
      <dt>Pods</dt><dd>${node.pods} of ${node.room}</dd>
    </dl>
    <ul class="legend">${pairs(node.apps).map(([app, n]) => html`<li key=${app}><${Swatch} name=${appName(apps, app)} />${appName(apps, app)}<b>${n}</b></li>`)}</ul>
  </section>`;
}

const gib = (mib) => (mib / 1024).toFixed(1);
const pairs = (list) => list.reduce((all, v, i) => (i % 2 ? [...all, [list[i - 1], v]] : all), []);

function Swatch({ name }) {
  return html`<i class="swatch" style=${{ background: colour(name) }}></i>`;
}
const colour = (name) => `oklch(0.67 0.16 ${hue(name)})`;

// Totals is the picture as a table: its sums, its colours, its fullest nodes.
function Totals({ nodes, cluster, fill, choose }) {
  const apps = new Map();
  let pods = 0;
  for (const node of nodes) {
    pods += node.pods;
    for (let k = 0; k < node.apps.length; k += 2) apps.set(node.apps[k], (apps.get(node.apps[k]) || 0) + node.apps[k + 1]);
  }
  const most = [...apps].sort((a, b) => b[1] - a[1]).slice(0, 12);
  const fullest = top(nodes, 12, fills[fill]);
  return html`<section class="card"><h2>${count(nodes.length, "node")}, ${count(pods, "pod")}</h2>
    <ul class="legend">${most.map(([app, n]) => html`<li key=${app}><${Swatch} name=${appName(cluster.apps, app)} />${appName(cluster.apps, app)}<b>${n.toLocaleString("en")}</b></li>`)}</ul>
    ${apps.size > most.length && html`<p>and ${count(apps.size - most.length, "app")} more</p>`}
    <table><caption>Fullest by ${fill}</caption><thead><tr><th>Node</th><th class="n">CPU</th><th class="n">Memory</th><th class="n">Pods</th></tr></thead><tbody>
      ${fullest.map((n) => html`<tr key=${n.slot}><td><button type="button" class="plain" onClick=${() => choose(n.name)}>${n.name}</button></td>
        <td class="n">${percent(n.usedCPU, n.cpu)} %</td><td class="n">${percent(n.usedMemory, n.memory)} %</td><td class="n">${n.pods}</td></tr>`)}
    </tbody></table>
  </section>`;
}

// top is the few of many with the highest measure, the highest first.
function top(all, few, measure) {
  const best = [];
  let least = -1;
  for (const one of all) {
    const value = measure(one);
    if (best.length === few && value <= least) continue;
    const at = best.findIndex((b) => b.value < value);
    best.splice(at < 0 ? best.length : at, 0, { one, value });
    best.length = Math.min(best.length, few);
    least = best.at(-1).value;
  }
  return best.map((b) => b.one);
}

// useTheme has who uses it drawn again when light turns to dark.
function useTheme() {
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const turned = () => setTheme((n) => n + 1);
    system.addEventListener("change", turned);
    addEventListener("theme", turned);
    return () => { system.removeEventListener("change", turned); removeEventListener("theme", turned); };
  }, []);
  return theme;
}

// Grid draws the nodes as boxes. What it shows stands beside it as a table, too.
function Grid({ nodes, version, cluster, fill, chosen, choose }) {
  const canvas = useRef();
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    seen.observe(canvas.current.parentElement);
    return () => seen.disconnect();
  }, []);
  const plan = useMemo(() => layout(nodes, width), [nodes, width]);
  useEffect(() => {
    if (!width) return;
    let next;
    const draw = () => { if (paint(canvas.current, plan, { apps: cluster.apps, fill, chosen })) next = requestAnimationFrame(draw); };
    draw();
    return () => cancelAnimationFrame(next);
  }, [plan, version, fill, chosen, useTheme()]);

  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return plan.boxes.find((b) => inside(b, event.clientX - box.left, event.clientY - box.top));
  };
  const key = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: plan.columns, ArrowUp: -plan.columns }[event.key];
    if (!by) return;
    event.preventDefault();
    const from = nodes.findIndex((n) => n.name === chosen);
    const to = from < 0 ? 0 : Math.min(nodes.length - 1, Math.max(0, from + by));
    choose(nodes[to].name);
  };
  return html`<div class="grid"><canvas ref=${canvas} tabindex="0" role="img" onClick=${(e) => at(e) && choose(at(e).node.name)} onKeyDown=${key}
    onMouseMove=${(e) => { canvas.current.title = at(e) ? summary(at(e).node) : ""; }}
    aria-label="Nodes by group, as the table beside it tells them. Arrow keys choose one."></canvas></div>`;
}

const summary = (n) => `${n.name}: cpu ${percent(n.usedCPU, n.cpu)} %, memory ${percent(n.usedMemory, n.memory)} %, ${n.pods} pods${n.state === "ready" ? "" : ", " + n.state}`;
const inside = (b, x, y) => x >= b.x && x < b.x + b.size && y >= b.y && y < b.y + b.size;

// layout gives each node a box, as large as lets all stand on about one screen.
function layout(nodes, width) {
  const groups = new Map();
  for (const node of nodes) {
    if (!groups.has(node.group)) groups.set(node.group, []);
    groups.get(node.group).push(node);
  }
  const heading = 24, gap = 10;
  let size = 64, columns = 1, height = 0;
  for (; size >= 6; size -= size > 24 ? 4 : 1) {
    columns = Math.max(1, Math.floor(width / size));
    height = [...groups.values()].reduce((h, g) => h + heading + gap + Math.ceil(g.length / columns) * size, 0);
    if (height <= 640) break;
  }
  const plan = { boxes: [], headings: [], columns, width, height };
  let y = 0;
  for (const [name, members] of groups) {
    plan.headings.push({ text: `${name || "without the label"} · ${members.length}`, y: y + 16 });
    y += heading;
    members.forEach((node, i) => plan.boxes.push({ node, size: size - (size > 12 ? 3 : 1), x: (i % columns) * size, y: y + Math.floor(i / columns) * size }));
    y += Math.ceil(members.length / columns) * size + gap;
  }
  return plan;
}

const flash = 900; // how long a node glows upon which a pod has landed, in milliseconds
const still = matchMedia("(prefers-reduced-motion: reduce)");

// paint draws a plan, and says whether something in it still glows.
function paint(canvas, plan, { apps, fill, chosen }) {
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== plan.width * scale || canvas.height !== plan.height * scale) {
    canvas.width = plan.width * scale;
    canvas.height = plan.height * scale;
    canvas.style.width = plan.width + "px";
    canvas.style.height = plan.height + "px";
  }
  const style = getComputedStyle(canvas);
  const ink = (name) => style.getPropertyValue(name);
  const inks = { box: ink("--box"), fill: ink("--fill"), full: ink("--full"), text: ink("--dim"), bad: ink("--bad"), accent: ink("--accent") };
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, plan.width, plan.height);
  g.font = "12px system-ui, sans-serif";
  g.fillStyle = inks.text;
  for (const h of plan.headings) g.fillText(h.text, 0, h.y);
  const now = performance.now();
  let glows = false;
  for (const b of plan.boxes) {
    const part = Math.min(1, fill(b.node));
    g.fillStyle = inks.box;
    g.fillRect(b.x, b.y, b.size, b.size);
    g.fillStyle = part > 0.9 ? inks.full : inks.fill;
    g.fillRect(b.x, b.y + b.size * (1 - part), b.size, b.size * part);
    if (b.size >= 24) dots(g, b, apps);
    if (b.node.state !== "ready") border(g, b, inks.bad, 1);
    const glow = still.matches || !b.node.landed ? 0 : 1 - (now - b.node.landed) / flash;
    if (glow > 0) { border(g, b, inks.accent, glow); glows = true; }
    if (b.node.name === chosen) border(g, b, inks.accent, 1);
  }
  return glows;
}

function border(g, b, colour, alpha) {
  g.globalAlpha = alpha;
  g.strokeStyle = colour;
  g.lineWidth = 2;
  g.strokeRect(b.x + 1, b.y + 1, b.size - 2, b.size - 2);
  g.globalAlpha = 1;
}

// dots are a node's pods, as many as fit, in the colours of their apps.
function dots(g, b, apps) {
  const side = 6, columns = Math.floor((b.size - 4) / side);
  let i = 0;
  for (let k = 0; k < b.node.apps.length; k += 2) {
    g.fillStyle = colour(appName(apps, b.node.apps[k]));
    for (let n = 0; n < b.node.apps[k + 1] && i < columns * columns; n++, i++) {
      g.fillRect(b.x + 3 + (i % columns) * side, b.y + 3 + Math.floor(i / columns) * side, side - 1, side - 1);
    }
  }
}
