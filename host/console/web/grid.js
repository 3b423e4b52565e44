// The nodes as boxes on a canvas, and what a stream has told of them.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { breathe } from "./api.js";
import { hue, percent } from "./parts.js";

// A cluster is what the stream has told so far. Its version changes with each frame,
// its shape where nodes come, go or change their group; ordered are its nodes by group
// and name, sums the pods by app. It is filling until its first picture is whole.
export const empty = () => ({ apps: [], nodes: new Map(), ordered: [], sums: new Map(), pods: 0, version: 0, shape: 0, filling: true });

// told takes a frame in: columns of nodes, of their use, and slots that are empty now.
export function told(cluster, frame) {
  if (frame.reset) Object.assign(cluster, { ...empty(), version: cluster.version, shape: cluster.shape + 1 });
  cluster.apps.push(...(frame.apps || []));
  cluster.version++;
  const { shape } = cluster;
  const came = nodesTold(cluster, frame.nodes || {});
  useTold(cluster, frame.use || {});
  for (const slot of frame.gone || []) {
    if (!cluster.nodes.has(slot)) continue;
    count(cluster, cluster.nodes.get(slot), -1);
    cluster.nodes.delete(slot);
    cluster.shape++;
  }
  if (cluster.shape !== shape) {
    const stay = cluster.ordered.filter((node) => cluster.nodes.get(node.slot) === node);
    cluster.ordered = stay.concat(came.sort(byOrder)).sort(byOrder); // merges the two
  }
  cluster.filling &&= Boolean(frame.more);
}

// nodesTold takes nodes in, and returns those that are new.
function nodesTold(cluster, n) {
  const came = [];
  (n.slot || []).forEach((slot, i) => {
    let node = cluster.nodes.get(slot);
    if (!node) {
      node = { slot, order: "", name: "", group: "", state: "", cpu: 0, memory: 0, room: 0, usedCPU: 0, usedMemory: 0, apps: [], pods: 0, landed: 0, version: 0 };
      cluster.nodes.set(slot, node);
      came.push(node);
    }
    if (node.name !== n.name[i] || node.group !== n.group[i]) {
      cluster.shape++;
      node.order = padded(n.group[i]) + "\n" + padded(n.name[i]);
    }
    Object.assign(node, { name: n.name[i], group: n.group[i], state: n.state[i], cpu: n.cpu[i], memory: n.memory[i], room: n.pods[i], version: cluster.version });
  });
  return came;
}

// useTold takes in what is on nodes. One glows on which a pod has landed since the
// first picture.
function useTold(cluster, u) {
  (u.slot || []).forEach((slot, i) => {
    const node = cluster.nodes.get(slot);
    const had = node.pods;
    count(cluster, node, -1);
    Object.assign(node, { usedCPU: u.cpu[i], usedMemory: u.memory[i], apps: u.apps[i] || [], version: cluster.version });
    count(cluster, node, 1);
    if (!cluster.filling && node.pods > had) node.landed = performance.now();
  });
}

// count adds a node's pods to the cluster's sums, or takes them away.
function count(cluster, node, sign) {
  node.pods = 0;
  for (let k = 0; k < node.apps.length; k += 2) {
    const [app, n] = [node.apps[k], node.apps[k + 1]];
    node.pods += n;
    cluster.sums.set(app, (cluster.sums.get(app) || 0) + sign * n);
  }
  cluster.pods += sign * node.pods;
}

// padded has node-2 before node-10 where texts are compared.
const padded = (name) => name.replace(/\d+/g, (digits) => digits.padStart(9, "0"));
const byOrder = (a, b) => (a.order < b.order ? -1 : a.order > b.order ? 1 : 0);

// inOrder are the nodes that a filter leaves, by group and name.
export const inOrder = (cluster, filter) => (filter ? cluster.ordered.filter((n) => n.name.includes(filter) || n.group.includes(filter)) : cluster.ordered);

export const appName = (apps, i) => apps[i] ?? "other";
const colours = new Map();
export function colour(name) {
  if (!colours.has(name)) colours.set(name, `oklch(0.67 0.16 ${hue(name)})`);
  return colours.get(name);
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

// Grid draws the nodes as boxes, each filled as fill says from 0 to 1. Marks, where
// there are some, are by node: {refused, part, ghosts, why}. What it shows stands beside
// it as a table, too.
export function Grid({ nodes, version, cluster, fill, chosen, choose, marks, label = "Nodes by group, as the table beside it tells them. Arrow keys choose one." }) {
  const canvas = useRef();
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    seen.observe(canvas.current.parentElement);
    return () => seen.disconnect();
  }, []);
  const plan = useMemo(() => layout(width ? nodes : [], width), [nodes, width]);
  const theme = useTheme();
  const drawn = useRef([]);
  useEffect(() => {
    if (!width) return;
    const look = [plan, theme, cluster, fill, chosen, marks];
    const changed = look.findIndex((part, i) => part !== drawn.current[i]);
    drawn.current = look;
    const pass = { apps: cluster.apps, fill, chosen, marks, ended: false };
    if (changed >= 0) for (const b of plan.boxes) b.drawn = -1;
    if (changed >= 0 && changed < 3) begin(canvas.current, plan); // what else is changed is drawn over
    let next;
    const draw = async () => {
      if (await paint(canvas.current, plan, pass)) next = setTimeout(draw, 120);
    };
    draw();
    return () => { pass.ended = true; clearTimeout(next); };
  }, [plan, version, fill, chosen, marks, theme, cluster]);

  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return plan.boxes.find((b) => inside(b, event.clientX - box.left, event.clientY - box.top));
  };
  const key = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: plan.columns, ArrowUp: -plan.columns }[event.key];
    if (!by || !choose || !nodes.length) return;
    event.preventDefault();
    const from = nodes.findIndex((n) => n.name === chosen);
    choose(nodes[from < 0 ? 0 : Math.min(nodes.length - 1, Math.max(0, from + by))].name);
  };
  const title = (b) => summary(b.node) + (marks?.get(b.node.name)?.why ? "\n" + marks.get(b.node.name).why : "");
  // Said once it is chosen, and not each time that a pod lands on it.
  const said = useMemo(() => { const node = nodes.find((n) => n.name === chosen); return node ? summary(node) : ""; }, [chosen]);
  return html`<div class="grid"><span class="unseen" role="status">${said}</span><canvas ref=${canvas} tabindex=${choose ? 0 : null} role=${choose ? "application" : "img"} aria-busy="true" onClick=${(e) => choose && at(e) && choose(at(e).node.name)} onKeyDown=${key}
    onMouseMove=${(e) => { const b = at(e); canvas.current.title = b ? title(b) : ""; }} aria-label=${label}></canvas></div>`;
}

const summary = (n) => `${n.name}: cpu ${percent(n.usedCPU, n.cpu)} %, memory ${percent(n.usedMemory, n.memory)} %, ${n.pods} pods${n.state === "ready" ? "" : ", " + n.state}`;
const inside = (b, x, y) => x >= b.x && x < b.x + b.size && y >= b.y && y < b.y + b.size;

const maxGroups = 100; // that stand apart

// layout gives each node a box, as large as lets all stand on about one screen.
function layout(nodes, width) {
  const groups = Map.groupBy(nodes, (node) => node.group);
  if (groups.size > maxGroups) {
    const all = `${groups.size.toLocaleString("en")} groups, one after the other`;
    groups.clear();
    groups.set(all, nodes);
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
    members.forEach((node, i) => plan.boxes.push({ node, drawn: -1, glows: false, size: size - (size > 12 ? 3 : 1), x: (i % columns) * size, y: y + Math.floor(i / columns) * size }));
    y += Math.ceil(members.length / columns) * size + gap;
  }
  return plan;
}

const flash = 900; // how long a node glows upon which a pod has landed, in milliseconds
const still = matchMedia("(prefers-reduced-motion: reduce)");

// begin makes room for a plan on a canvas, with its headings.
function begin(canvas, plan) {
  canvas.setAttribute("aria-busy", "true");
  const scale = window.devicePixelRatio || 1;
  canvas.width = plan.width * scale;
  canvas.height = plan.height * scale;
  canvas.style.width = plan.width + "px";
  canvas.style.height = plan.height + "px";
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.font = "12px system-ui, sans-serif";
  g.fillStyle = inksOf(canvas).text;
  for (const h of plan.headings) g.fillText(h.text, 0, h.y);
}

function inksOf(canvas) {
  const style = getComputedStyle(canvas);
  const ink = (name) => style.getPropertyValue(name);
  return { box: ink("--box"), fill: ink("--fill"), full: ink("--full"), text: ink("--dim"), bad: ink("--bad"), accent: ink("--accent"), score: ink("--score") };
}

const slice = 12; // how long is drawn at a time, in milliseconds

// paint draws the boxes of a plan whose nodes have changed since they were drawn, and
// those that glow, a slice at a time; it tells whether some glow on. What is left when
// the pass has ended is drawn by the next one.
async function paint(canvas, plan, pass) {
  const inks = inksOf(canvas);
  const g = canvas.getContext("2d");
  let until = performance.now() + slice;
  let glowing = false;
  for (const b of plan.boxes) {
    if (b.drawn === b.node.version && !b.glows) continue;
    const now = performance.now();
    if (now > until) {
      await breathe();
      if (pass.ended) return false;
      until = performance.now() + slice;
    }
    const glow = still.matches || !b.node.landed ? 0 : 1 - (now - b.node.landed) / flash;
    box(g, b, { ...pass, inks, part: pass.fill(b.node), mark: pass.marks?.get(b.node.name), marked: !!pass.marks, glow, chosen: b.node.name === pass.chosen });
    b.drawn = b.node.version;
    b.glows = glow > 0;
    glowing ||= b.glows;
  }
  canvas.setAttribute("aria-busy", "false");
  return glowing;
}

// box draws one node.
function box(g, b, { apps, inks, part, mark, marked, glow, chosen }) {
  const scored = mark?.part !== undefined;
  part = Math.min(1, mark?.refused ? 0 : scored ? mark.part : part);
  g.fillStyle = inks.box;
  g.fillRect(b.x, b.y, b.size, b.size);
  g.fillStyle = scored ? inks.score : part > 0.9 ? inks.full : inks.fill;
  g.fillRect(b.x, b.y + b.size * (1 - part), b.size, b.size * part);
  if (b.size >= 24 && !scored && !mark?.refused) dots(g, b, apps);
  if (mark?.refused) cross(g, b, inks.bad);
  if (b.node.state !== "ready" && !marked) border(g, b, inks.bad, 1);
  if (mark?.ghosts) ghost(g, b, inks, mark.ghosts);
  if (glow > 0) border(g, b, inks.accent, glow);
  if (chosen) border(g, b, inks.accent, 1);
}

function border(g, b, colour, alpha) {
  g.globalAlpha = alpha;
  g.strokeStyle = colour;
  g.lineWidth = 2;
  g.strokeRect(b.x + 1, b.y + 1, b.size - 2, b.size - 2);
  g.globalAlpha = 1;
}

// cross says that a node is refused, not by its colour alone.
function cross(g, b, ink) {
  g.strokeStyle = ink;
  g.lineWidth = b.size >= 16 ? 2 : 1;
  g.beginPath();
  g.moveTo(b.x + 1, b.y + 1);
  g.lineTo(b.x + b.size - 1, b.y + b.size - 1);
  g.moveTo(b.x + b.size - 1, b.y + 1);
  g.lineTo(b.x + 1, b.y + b.size - 1);
  g.stroke();
}

// ghost is pods that would come: a dashed box with how many, where that can be read.
function ghost(g, b, inks, n) {
  g.fillStyle = inks.accent;
  if (b.size < 20) {
    g.fillRect(b.x + b.size / 4, b.y + b.size / 4, b.size / 2, b.size / 2);
    return;
  }
  g.setLineDash([3, 2]);
  border(g, b, inks.accent, 1);
  g.setLineDash([]);
  g.fillStyle = inks.accent;
  g.font = `bold ${b.size < 26 ? 10 : 12}px system-ui, sans-serif`;
  g.textAlign = "center";
  g.fillText(`+${n}`, b.x + b.size / 2, b.y + b.size / 2 + 4);
  g.textAlign = "left";
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
