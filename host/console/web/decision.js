// Why a pod is where it is, or why it waits: each node by each policy.

import { html, useMemo, useState } from "./vendor/preact.js";
import { advise, explainPath } from "./pending.js";
import { Camel, Commands, Copied, Notice, Stale, Trouble, Waiting, Wide, count, link, replace, shell, useAnswer } from "./parts.js";

const shown = 100; // rows of the table

export function Decision({ path, query }) {
  const [namespace, name] = path;
  if (!name) return html`<${Ask} namespace=${namespace} />`;
  return html`<${Report} key=${[namespace, name, query.number]} namespace=${namespace} name=${name} query=${query} />`;
}

// Ask is the view before a pod was named.
function Ask({ namespace }) {
  const find = (event) => {
    event.preventDefault();
    const [pod, of] = event.target.pod.value.trim().split("/").reverse();
    location.hash = link(["decision", of || "default", pod]);
  };
  return html`<h1>Decision</h1>
    <form class="controls" onSubmit=${find}><label>Pod <input id="filter" name="pod" required placeholder="namespace/name" value=${namespace ? namespace + "/" : ""} /></label> <button>Explain</button></form>
    <p>Or choose one of those that wait in <a href=${link(["pending"])}>Pending</a>.</p>`;
}

// untilPlaced has what waits asked about again.
const untilPlaced = (report) => (report?.node ? 0 : 10000);

function Report({ namespace, name, query }) {
  const { value: report, error } = useAnswer(explainPath(namespace, name) + (query.number ? `&decision=${encodeURIComponent(query.number)}` : ""), query.number ? 0 : untilPlaced);
  const [weights, setWeights] = useState({});
  const decided = useMemo(() => report && decide(report, weights), [report, weights]);
  if (error && !report) return html`<h1>${namespace}/${name}</h1><${Trouble} error=${error} />`;
  if (!report) return html`<h1>${namespace}/${name}</h1><${Waiting}>Deriving the decision again<//>`;
  const filter = query.filter || "";
  const rows = decided.rows.filter((row) => row.node.includes(filter));
  return html`
    <h1>${namespace}/${name}</h1>
    ${error && html`<${Stale} state=${error} />`}
    <p class="answer">${sentence(report)}</p>
    ${query.number && html`<p class="stale">This is decision ${query.number}, as it was made at ${new Date(report.decision?.at).toLocaleString()}. <a href=${link(["decision", namespace, name])}>The newest</a> · <a href=${link(["time"], { at: String(new Date(report.decision?.at).getTime()) })}>the cluster then</a></p>`}
    ${report.note && html`<p class="stale">${report.note}</p>`}
    <p><a href=${link(["topology"], { pod: `${namespace}/${name}`, fill: "score" })}>On the topology</a> · <a href=${link(["logs", namespace, name])}>Its logs</a></p>
    ${!report.node && !query.number && html`<p class="advice"><b>What would place it:</b> ${advise(report).text}</p>`}
    ${report.room && html`<p>Room was made for it on ${report.room.node}, by preempting ${count(report.room.victims.length, "pod")}: ${report.room.victims.map((v) => v.namespace + "/" + v.pod).join(", ")}.</p>`}
    ${report.preemptedBy && html`<p>It had to go: room was made for another pod on ${report.preemptedBy.node}.</p>`}
    <div class="beside">
      <div>
        <form class="controls" onSubmit=${(e) => e.preventDefault()}><label>Filter nodes <input id="filter" type="search" value=${filter}
          onInput=${(e) => replace(link(["decision", namespace, name], { filter: e.target.value, number: query.number }))} /></label></form>
        <${Matrix} report=${report} rows=${rows} weights=${weights} first=${decided.first} />
        ${report.left > 0 && html`<p>${count(report.left, "node")} with fewer points are not looked at here.</p>`}
      </div>
      <aside>
        <${Predicates} report=${report} />
        ${report.feasible > 0 && html`<${Weights} report=${report} weights=${weights} set=${setWeights} decided=${decided} />`}
      </aside>
    </div>
    <${Commands} lines=${[`berth explain pod ${shell(name)} -n ${shell(namespace)} -o wide`, `kubectl describe pod ${shell(name)} -n ${shell(namespace)}`, ...(report.decision ? [`berth replay ${report.decision.number}`] : [])]} />`;
}

function sentence(report) {
  const able = `${report.feasible} of ${count(report.nodes, "node")} can take it`;
  if (report.node) return html`It is on <b>${report.node}</b> (${report.state}): ${able}${report.decision?.tied > 1 ? `, ${report.decision.tied} are equally good` : ""}.`;
  return html`It has no node (${report.state}): ${(report.message || able).replace(/\.$/, "")}.`;
}

// decide adds the normalised scores up by other weights. Nothing is written, and no
// policy is asked again: verdicts and scores are those of the report.
export function decide(report, weights) {
  const weight = report.priorities.map((p) => weights[p.name] ?? p.weight);
  const rows = (report.rows || []).map((row) => ({ ...row, total: (row.scores || []).reduce((sum, s, i) => sum + s.normalized * weight[i], 0) }));
  rows.sort((a, b) => b.feasible - a.feasible || b.total - a.total || (b.chosen ? 1 : 0) - (a.chosen ? 1 : 0));
  const able = rows.filter((row) => row.feasible);
  return { rows, first: able[0], tied: able.filter((row) => row.total === able[0].total).length };
}

// Matrix is nodes by policies: of predicates those that refuse some node, of
// priorities those that have something to say.
function Matrix({ report, rows, weights, first }) {
  const predicates = report.predicates.filter((p) => p.refuses > 0);
  const priorities = report.priorities.map((p, i) => ({ ...p, i })).filter((p) => !p.skipped);
  if (!rows.length) return html`<${Notice} title="No node">None has this name.<//>`;
  return html`<${Wide} label="Nodes and policies"><table class="matrix"><thead><tr><th>Node</th>
      ${predicates.map((p) => html`<th key=${p.name}><${Camel} name=${p.name} /></th>`)}
      ${priorities.map((p) => html`<th class="n" key=${p.name}><${Camel} name=${p.name} /><small> × ${weights[p.name] ?? p.weight}</small></th>`)}
      <th class="n">Total</th></tr></thead><tbody>
    ${rows.slice(0, shown).map((row) => html`<tr key=${row.node} class=${row === first ? "chosen" : row.feasible ? "" : "refused"}>
      <th scope="row">${row.node}${row.chosen && html` <small>chosen</small>`}</th>
      ${predicates.map((p) => html`<td key=${p.name}>${reason(row, p.name) ?? "✓"}</td>`)}
      ${priorities.map((p) => html`<td class="n" key=${p.name}>${row.scores?.[p.i] ? score(row.scores[p.i], weights[p.name] ?? p.weight) : "–"}</td>`)}
      <td class="n"><b>${row.feasible ? row.total : "–"}</b></td></tr>`)}
    </tbody></table><//>
    ${rows.length > shown && html`<p>and ${count(rows.length - shown, "node")} more: filter by name to see them.</p>`}`;
}

const reason = (row, predicate) => {
  const said = (row.refusals || []).find((r) => r.predicate === predicate);
  return said && html`<span class="no">✗</span> ${said.reason}`;
};

const score = (s, weight) => html`<span title="what the policy said">${s.raw}</span> → ${s.normalized}<small> × ${weight}</small>`;

function Predicates({ report }) {
  const telling = report.predicates.filter((p) => p.refuses > 0 || p.error);
  const silent = report.predicates.length - telling.length;
  return html`<section class="card"><h2>Who refuses</h2>
    ${telling.length > 0 && html`<table><thead><tr><th>Predicate</th><th class="n">Refuses</th><th class="n">Alone</th></tr></thead><tbody>
      ${telling.map((p) => html`<tr key=${p.name}><td>${p.name}${p.error && html` <small class="no">${p.error}</small>`}</td><td class="n">${p.refuses}</td><td class="n">${p.alone}</td></tr>`)}
    </tbody></table>`}
    <p>${count(silent, "predicate")} ${silent === 1 ? "refuses" : "refuse"} no node.</p></section>`;
}

// Weights lets other weights be tried.
function Weights({ report, weights, set, decided }) {
  const changed = Object.keys(weights).length > 0;
  return html`<section class="card"><h2>Other weights</h2>
    <p role="status">${changed ? html`It would go to <b>${decided.first.node}</b>${decided.tied > 1 && `, or one of ${decided.tied - 1} as good`}. Nothing is written.` : "Move one to decide again, without writing anything."}</p>
    ${report.priorities.filter((p) => !p.skipped).map((p) => html`<label class="weight" key=${p.name}><span>${p.name}</span>
      <input type="range" min="0" max=${Math.max(10, 3 * p.weight)} value=${weights[p.name] ?? p.weight} onInput=${(e) => set({ ...weights, [p.name]: Number(e.target.value) })} />
      <output>${weights[p.name] ?? p.weight}</output></label>`)}
    <p>${changed && html`<button type="button" onClick=${() => set({})}>As they are</button> `}<${Copied} text=${profileYAML(report, weights)}>these weights as YAML <//></p>
  </section>`;
}

// profileYAML is the part of a Profile that has these weights. Names are written as
// JSON, which YAML reads.
export function profileYAML(report, weights) {
  const lines = report.priorities.map((p) => `  - name: ${JSON.stringify(p.name)}\n    weight: ${weights[p.name] ?? p.weight}`);
  return `# kubectl patch profile ${shell(report.profile)} --type=merge --patch-file=FILE\nspec:\n  priorities:\n${lines.join("\n")}\n`;
}
