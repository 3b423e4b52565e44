// The nodes, grouped by a label and filled by what their pods ask for, or by what a
// policy says of them for a pod.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { breathe, stream } from "./api.js";
import { Grid, appName, colour, empty, inOrder, told } from "./grid.js";
import { Commands, Notice, Trouble, Waiting, barred, count, link, percent, replace, shell } from "./parts.js";
import { Verdicts, marksOf, useVerdicts } from "./verdicts.js";

export const zone = "topology.kubernetes.io/zone";
const labels = [zone, "topology.kubernetes.io/region", "node.kubernetes.io/instance-type", "kubernetes.io/arch", "kubernetes.io/hostname"];

// useCluster follows the topology: {cluster, version, state}.
export function useCluster(label) {
  const cluster = useRef(empty());
  const [version, setVersion] = useState(0);
  const [state, setState] = useState("");
  useEffect(() => stream("topology", { label }, (frame) => {
    if (!frame.use) return;
    told(cluster.current, frame);
    if (!frame.more) breathe().then(() => setVersion((v) => v + 1)); // else the rest of it follows at once
  }, setState), [label]);
  return { cluster: cluster.current, version: barred(state) ? 0 : version, state };
}

// fills say how full a node is, from 0 to 1.
export const fills = {
  cpu: (node) => node.usedCPU / (node.cpu || 1),
  memory: (node) => node.usedMemory / (node.memory || 1),
  pods: (node) => node.pods / (node.room || 1),
};

// GroupBy is a field for a label of nodes.
export const GroupBy = ({ label, change }) => html`<label>Group by <input list="labels" value=${label} onChange=${(e) => change(e.target.value)} /></label>
  <datalist id="labels">${labels.map((l) => html`<option value=${l} />`)}</datalist>`;

export function Topology({ query }) {
  const label = query.label || zone;
  const fill = fills[query.fill] || query.fill === "score" ? query.fill : "cpu";
  const { cluster, version, state } = useCluster(label);
  const verdicts = useVerdicts(query.pod);
  const [hovered, hover] = useState("");
  const policy = hovered || (fill === "score" ? query.policy || "all" : "");
  const marks = useMemo(() => verdicts.value && policy ? marksOf(verdicts.value, policy) : null, [verdicts.value, policy]);

  const filter = query.filter || "";
  const nodes = useMemo(() => inOrder(cluster, filter), [cluster.shape, version > 0, filter]);
  const change = (more) => replace(link(["topology"], { ...query, ...more }));

  if (state.message && version === 0) return html`<${Trouble} error=${state} />`;
  if (version === 0) return html`<${Waiting}>Looking at the nodes<//>`;
  const chosen = nodes.find((n) => n.name === query.node);
  const by = fills[fill] ? fill : "cpu";
  return html`
    <h1>Topology</h1>
    ${state.message && html`<p class="stale" role="status">Not connected: this is how it was.</p>`}
    <form class="controls" onSubmit=${(e) => e.preventDefault()}>
      <${GroupBy} label=${label} change=${(label) => change({ label })} />
      <fieldset><legend>Fill by</legend>${[...Object.keys(fills), "score"].map((name) => html`
        <label><input type="radio" name="fill" checked=${name === fill} onChange=${() => change({ fill: name })} /> ${name === "score" ? "a policy's score" : name}</label>`)}</fieldset>
      <label>Filter <input id="filter" type="search" value=${filter} onInput=${(e) => change({ filter: e.target.value })} /></label>
    </form>
    ${cluster.nodes.size === 0
      ? html`<${Notice} title="No nodes yet">A machine joins by <code>berth agent</code>; <code>berth up --simulate 100</code> plays some.<//>`
      : html`<div class="beside">
          <${Grid} nodes=${nodes} version=${version} cluster=${cluster} fill=${fills[by]} chosen=${query.node} marks=${marks} choose=${(node) => change({ node })} />
          <aside>
            ${chosen && html`<${Node} node=${chosen} apps=${cluster.apps} close=${() => change({ node: "" })} />`}
            <${Verdicts} query=${query} answer=${verdicts} policy=${policy} hover=${hover} change=${change} />
            <${Totals} nodes=${nodes} cluster=${cluster} filtered=${filter !== ""} fill=${by} choose=${(node) => change({ node })} />
          </aside>
        </div>`}
    <${Commands} lines=${[`kubectl get nodes --label-columns=${shell(label)}`, ...(chosen ? [`kubectl describe node ${shell(chosen.name)}`] : []),
      ...(query.pod ? [`berth explain pod ${shell(query.pod.split("/")[1] || "")} -n ${shell(query.pod.split("/")[0])} -o wide`] : [])]} />`;
}

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

// sumsOf are the pods of some nodes by app.
function sumsOf(nodes) {
  const apps = new Map();
  for (const node of nodes) {
    for (let k = 0; k < node.apps.length; k += 2) apps.set(node.apps[k], (apps.get(node.apps[k]) || 0) + node.apps[k + 1]);
  }
  return apps;
}

// Totals is the picture as a table: its sums, its colours, its fullest nodes.
export function Totals({ nodes, cluster, filtered, fill, choose }) {
  const apps = filtered ? sumsOf(nodes) : cluster.sums;
  const pods = filtered ? nodes.reduce((sum, n) => sum + n.pods, 0) : cluster.pods;
  const some = [...apps].filter(([, n]) => n > 0);
  const most = some.sort((a, b) => b[1] - a[1]).slice(0, 12);
  const fullest = top(nodes, 12, fills[fill]);
  return html`<section class="card"><h2>${count(nodes.length, "node")}, ${count(pods, "pod")}</h2>
    <ul class="legend">${most.map(([app, n]) => html`<li key=${app}><${Swatch} name=${appName(cluster.apps, app)} />${appName(cluster.apps, app)}<b>${n.toLocaleString("en")}</b></li>`)}</ul>
    ${some.length > most.length && html`<p>and ${count(some.length - most.length, "app")} more</p>`}
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
