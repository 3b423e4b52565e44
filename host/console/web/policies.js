// The policies and what each does: yours first.

import { html, useRef, useState } from "./vendor/preact.js";
import { patch } from "./api.js";
import { Push } from "./push.js";
import { Commands, Line, Notice, Trouble, Waiting, Wide, ago, count, link, replace, shell, useAnswer } from "./parts.js";

const api = "/apis/policy.berth.dev/v1alpha1/policies";
const every = 2000;
// What a question about nodes may take: so much each, and so much in all. A few nodes
// cost the more each, for what a call itself takes.
const fuelPerRow = 40_000;
const fuelPerQuestion = 32_000_000;

export function Policies({ path, query, session }) {
  const { value: list, error } = useAnswer(api, every);
  const { value: figures, error: noFigures } = useAnswer("/berth/v1/policies", every);
  const lines = useLines(figures);
  if (!list) return error ? html`<${Trouble} error=${error} />` : html`<${Waiting}>Asking for the policies<//>`;
  const filter = query.filter || "";
  const all = list.items.filter((p) => p.metadata.name.toLowerCase().includes(filter.toLowerCase())).sort(yoursFirst);
  const by = new Map((figures || []).map((f) => [f.name, f]));
  const chosen = path[0] && list.items.find((p) => p.metadata.name === path[0]);
  const yours = list.items.filter((p) => !builtin(p)).length;
  return html`
    <h1>Policies</h1>
    ${(error || noFigures) && html`<p class="stale" role="status">${(error || noFigures).status ? (error || noFigures).message : "Not connected: this is how it was."}</p>`}
    <form class="controls" onSubmit=${(e) => e.preventDefault()}><label>Filter <input id="filter" type="search" value=${filter} onInput=${(e) => replace(link(["policies", ...path], { filter: e.target.value }))} /></label>
      <span>${yours ? count(yours, "policy", "policies") + " of yours, " : "None is yours yet: all are "}${yours ? `${list.items.length - yours} built in` : `the ${list.items.length} built in`}.</span>
      ${session.write && !query.push && html`<a class="button" href=${link(["policies"], { push: "module" })}>Push a module</a>`}
      ${!session.write && html`<${ReadsOnly} />`}</form>
    ${session.write && query.push && html`<${Push} policies=${list.items} />`}
    ${path[0] && (chosen ? html`<${Policy} key=${path[0]} policy=${chosen} figures=${by.get(path[0])} session=${session} />` : html`<${Notice} title="Not there">No policy is called ${path[0]}.<//>`)}
    <${Wide} label="Policies"><table><thead><tr><th>Policy</th><th>Kind</th><th>Phase</th><th>Calls</th><th class="n">Refusals</th><th class="n">Fuel a row, beside what is allowed</th><th class="n">Failures</th><th class="n">Memory</th></tr></thead><tbody>
      ${all.map((p) => html`<${Row} key=${p.metadata.name} policy=${p} figures=${by.get(p.metadata.name)} lines=${lines.get(p.metadata.name)} chosen=${p === chosen} />`)}
    </tbody></table><//>
    <${Commands} lines=${["berth policy list"]} />`;
}

const builtin = (p) => Boolean(p.metadata.labels?.["policy.berth.dev/builtin"]);
const yoursFirst = (a, b) => builtin(a) - builtin(b) || (a.metadata.name < b.metadata.name ? -1 : 1);

// useLines keeps what was called between two answers, of each policy the last minute or two.
function useLines(figures) {
  const box = useRef({ lines: new Map(), had: new Map(), seen: null });
  const { lines, had, seen } = box.current;
  if (figures && figures !== seen) {
    box.current.seen = figures;
    for (const f of figures) {
      const line = lines.get(f.name) || [];
      if (had.has(f.name)) line.push(Math.max(0, f.calls - had.get(f.name)));
      lines.set(f.name, line.slice(-60));
      had.set(f.name, f.calls);
    }
  }
  return lines;
}

function Row({ policy, figures: f, lines, chosen }) {
  const name = policy.metadata.name;
  const canary = policy.status?.canary;
  return html`<tr class=${chosen ? "chosen" : ""}>
    <td><a href=${link(["policies", name])}>${name}</a>${!builtin(policy) && html` <small class="mark">yours</small>`}</td>
    <td>${policy.status?.kind}</td>
    <td><${Phase} text=${policy.status?.phase || "Waiting"} />${policy.spec.mode === "Shadow" && html` <small class="mark">Shadow</small>`}${canary && html` <small class="mark">canary ${canary.phase}</small>`}</td>
    <td class="calls">${f && html`<${Line} values=${lines || []} label="calls lately" /> ${f.calls.toLocaleString("en")}`}</td>
    <td class="n">${f && f.rows > 0 && `${((100 * f.refusals) / f.rows).toFixed(1)} %`}</td>
    <td class="n">${f && f.rows > 0 && html`<meter min="0" max="1" value=${f.fuel / (fuelPerRow * f.rows + fuelPerQuestion * f.calls)} aria-label="of the fuel that is allowed"></meter> ${Math.round(f.fuel / f.rows).toLocaleString("en")}`}</td>
    <td class="n">${f && (f.failures ? html`<span class="no">${f.failures}</span>` : "0")}</td>
    <td class="n">${f && f.memory > 0 && `${(f.memory / 1048576).toFixed(1)} MiB`}</td></tr>`;
}

const Phase = ({ text }) => html`<span class=${"phase " + (text === "Live" ? "good" : text === "Off" ? "" : "no")}>${text}</span>`;

function Policy({ policy, figures, session }) {
  const { spec, status = {} } = policy;
  const [said, setSaid] = useState("");
  const name = policy.metadata.name;
  const change = async (change, what) => {
    setSaid("Writing …");
    try {
      await patch(`${api}/${encodeURIComponent(name)}`, change);
      setSaid(`${what}: written. It is so once the phase in the table says it.`);
    } catch (err) {
      setSaid(err.message);
    }
  };
  return html`<section class="card"><h2>${name} <a class="close" href=${link(["policies"])} aria-label="Close">×</a></h2>
    ${status.message && html`<p class="no">${status.message}</p>`}
    ${figures?.lastFailure && html`<p><b>Last failure:</b></p><pre>${figures.lastFailure}</pre>`}
    ${status.canary && html`<${Canary} spec=${spec} status=${status} write=${session.write} change=${change} />`}
    ${status.differences && html`<${Differences} of=${status.differences} />`}
    <h3>History</h3>
    <${Timeline} revisions=${[...(status.history || []).toReversed(), ...(status.current ? [status.current] : [])]} />
    <ol class="history">
      ${status.current && html`<${Revision} of=${status.current} now=${standing(policy)} />`}
      ${(status.history || []).map((r, i) => html`<${Revision} key=${i} of=${r}
        back=${session.write && !same(r, status.current) && (() => change(backTo(status.kind, r), `Make ${short(r.module)} live again`))} />`)}
    </ol>
    ${said && html`<p role="status">${said}</p>`}
    ${session.write && !builtin(policy) && html`<p><${Turn} name=${name} off=${spec.mode === "Off"} change=${change} /></p>`}
    <${Commands} lines=${[`berth policy inspect ${shell(name)}`, `berth policy logs ${shell(name)}`, `berth policy history ${shell(name)}`, ...(spec.canary ? [`berth policy promote ${shell(name)}`] : []), ...(status.history?.length ? [`berth policy rollback ${shell(name)}`] : [])]} />
  </section>`;
}

const ReadsOnly = () => html`<small>This session only reads: the address that <code>berth console --write</code> prints opens one that may push, promote and turn off.</small>`;

// Turn has a policy decide nothing any more, or decide again.
const Turn = ({ name, off, change }) => off
  ? html`<${Sure} label="Turn on" go=${() => change({ mode: null }, `Have ${name} decide again`)} />`
  : html`<${Sure} label="Turn off" go=${() => change({ mode: "Off" }, `Have ${name} decide nothing`)} /> <small>It stays, with its history, and decides nothing.</small>`;

function Canary({ spec, status: { canary }, write, change }) {
  const promote = () => change({ module: spec.canary.module, canary: null }, `Let ${short(spec.canary.module)} decide all pods`);
  const withdraw = () => change({ canary: null }, `Withdraw ${short(canary.module)}`);
  return html`<p><b>Canary</b> ${short(canary.module)}: ${canary.phase}${spec.canary && `, decides ${spec.canary.share} % of the pods`}, since ${ago(canary.since)}. ${canary.reason} ${canary.message}</p>
    ${write && spec.canary && html`<p>${canary.phase === "Running" && html`<${Sure} label="Promote" go=${promote} /> `}<${Sure} label="Roll back" go=${withdraw} /></p>`}`;
}

const Differences = ({ of: d }) => html`<p>Of ${count(d.pods, "pod")} that were compared, it refused nodes to ${d.refusedPods} and would have chosen another node for ${d.scored}; it refused ${count(d.refused, "node")} that the other admits, and admitted ${d.admitted} that the other refuses.</p>`;

// standing is what became of a policy by its mode.
const standing = ({ spec, status }) => (status.phase === "Off" ? "turned off" : spec.mode === "Shadow" ? "a shadow, which decides nothing" : "decides now");

const same = (a, b) => b && a.module === b.module && a.entry === b.entry && JSON.stringify(a.config) === JSON.stringify(b.config);
const short = (module) => module.replace(/^sha256[:-]/, "").slice(0, 12);

// backTo is the spec of a revision, as berth policy rollback makes it: of a controller
// whose account nobody wrote down, the present one stays.
const backTo = (kind, r) => ({ module: r.module, entry: r.entry ?? null, config: r.config ?? null, canary: null,
  ...((r.serviceAccount || kind !== "controller") && { serviceAccount: r.serviceAccount ?? null }) });

const Revision = ({ of: r, now, back }) => html`<li class=${now ? "now" : ""}><time datetime=${r.since}>${new Date(r.since).toLocaleString()}</time>
  <span><code>${short(r.module)}</code> ${r.reason}${now ? `, ${now}` : r.left && `, left: ${r.left}`}${r.message && `: ${r.message}`}</span>
  ${back && html`<${Sure} label=${r.reason === "Canary" ? "Make live" : "Make live again"} go=${back} />`}</li>`;

// Sure is a button that asks once more.
function Sure({ label, go }) {
  const [asked, setAsked] = useState(false);
  if (!asked) return html`<button type="button" onClick=${() => setAsked(true)}>${label}</button>`;
  return html`<span class="sure">${label}? <button type="button" onClick=${() => { setAsked(false); go(); }}>Yes, now</button> <button type="button" onClick=${() => setAsked(false)}>No</button></span>`;
}

// Timeline is the revisions from the oldest to now, by when each came and left.
function Timeline({ revisions }) {
  if (revisions.length < 2) return null;
  const now = Date.now();
  const from = Math.min(...revisions.map((r) => new Date(r.since)));
  const x = (time) => 8 + (584 * (new Date(time) - from)) / Math.max(1000, now - from);
  const kind = (r) => (r.reason === "Canary" ? "trial" : r === revisions.at(-1) ? "now" : "");
  const words = (r) => `${short(r.module)}, ${r.reason}, ${new Date(r.since).toLocaleString()}${r.left ? `, left: ${r.left}` : ""}`;
  return html`<div class="timeline"><svg viewBox="0 0 600 20" role="img" aria-label="The revisions below, in time">
    ${revisions.map((r, i) => html`<g key=${i} class=${kind(r)}><title>${words(r)}</title>
      <line x1=${x(r.since)} x2=${x(r.until || now)} y1=${r.reason === "Canary" ? 6 : 14} y2=${r.reason === "Canary" ? 6 : 14} /><circle cx=${x(r.since)} cy=${r.reason === "Canary" ? 6 : 14} r="4" /></g>`)}
    </svg><small>${new Date(from).toLocaleString()}</small><small>now</small></div>`;
}
