// Deployments, StatefulSets, DaemonSets and Jobs: how far each has come, and what it
// waits for.

import { html, useRef } from "./vendor/preact.js";
import { Bar, Commands, Filter, Line, Notice, Stale, Trouble, Waiting, Wide, ago, count, link, replace, shell, useAnswer, useFrames } from "./parts.js";

const resources = { Deployment: "deployments.apps", StatefulSet: "statefulsets.apps", DaemonSet: "daemonsets.apps", Job: "jobs.batch" };

export function Workloads({ path, query }) {
  const filter = query.filter || "";
  const chosen = path.length === 3 ? path.join("/") : "";
  const { frame, fresh, state } = useFrames("workloads", { filter, chosen });
  if (!frame) return state.message ? html`<${Trouble} error=${state} />` : html`<${Waiting}>Asking for the workloads<//>`;
  return html`
    <h1>Workloads</h1>
    <${Stale} state=${state} />
    <${Filter} value=${filter} hint="Kind/namespace/name" change=${(text) => replace(link(["workloads", ...path], { filter: text }))} />
    ${chosen && (frame.chosen && named(frame.chosen) === chosen ? html`<${Workload} key=${chosen} row=${frame.chosen} frame=${frame} />` : fresh && html`<${Notice} title="Not there">There is no ${chosen} that you may see.<//>`)}
    ${frame.all === 0
      ? html`<${Notice} title="No workloads">No Deployment, StatefulSet, DaemonSet or Job of those that you may see. <code>kubectl create deployment NAME --image=IMAGE</code> makes one.<//>`
      : html`<${Wide} label="Workloads"><table><thead><tr><th>Workload</th><th>Kind</th><th>State</th><th>Roll-out <small>ready, before up to date</small></th><th class="n">Wanted</th><th class="n">Ready</th><th class="n">Up to date</th><th class="n">Old</th><th class="n">Age</th></tr></thead><tbody>
          ${frame.rows.map((r) => html`<${Row} key=${named(r)} row=${r} chosen=${named(r) === chosen} />`)}
        </tbody></table><//>`}
    ${frame.left > 0 && html`<p>and ${count(frame.left, "more", "more")}: filter by name to see them.</p>`}
    <${Commands} lines=${["kubectl get deployments,statefulsets,daemonsets,jobs --all-namespaces"]} />`;
}

const named = (r) => `${r.kind}/${r.namespace}/${r.name}`;
const grades = { Complete: "good", Stuck: "no", Failed: "no" };

// parts are a roll-out's, of what is wanted: behind, what is of the newest template,
// before it, what is ready. Of a Job what has succeeded, and what has failed.
const parts = (r) => r.kind === "Job" ? [["ready", r.ready / r.want], ["failed", r.old / r.want]] : [["", r.updated / r.want], ["ready", r.ready / r.want]];

const Row = ({ row: r, chosen }) => html`<tr class=${chosen ? "chosen" : ""}>
  <td><a href=${link(["workloads", r.kind, r.namespace, r.name])}>${r.namespace}/${r.name}</a></td><td>${r.kind}</td>
  <td><span class=${grades[r.state]}>${r.state}</span></td><td><${Bar} parts=${parts(r)} /></td>
  <td class="n">${r.want}</td><td class="n">${r.ready}</td><td class="n">${r.kind === "Job" ? "–" : r.updated}</td><td class="n">${r.kind === "Job" ? "–" : r.old}</td><td class="n">${ago(r.since)}</td></tr>`;

function Workload({ row: r, frame }) {
  const ready = useRef({ values: [] });
  if (ready.current.frame !== frame) ready.current = { frame, values: [...ready.current.values, r.ready].slice(-60) };
  const where = new URLSearchParams({ resource: resources[r.kind], namespace: r.namespace, name: r.name });
  const { value: report, error } = useAnswer(`/berth/v1/explain?${where}`, 2000);
  const it = `${r.kind.toLowerCase()} ${shell(r.name)} -n ${shell(r.namespace)}`;
  return html`<section class="card"><h2>${r.kind} ${r.namespace}/${r.name} <a class="close" href=${link(["workloads"])} aria-label="Close">×</a></h2>
    <p class="answer"><span class=${grades[r.state]}>${r.state}</span>: ${r.kind === "Job"
      ? `${r.ready} of ${r.want} have succeeded, ${r.updated} are at work, ${r.old} have failed`
      : `${r.ready} of ${r.want} are ready, ${r.updated} up to date, ${r.old} of former templates`}. <${Bar} parts=${parts(r)} /> <${Line} values=${ready.current.values} label="ready lately" /></p>
    ${r.message && html`<p class="no">${r.message}</p>`}
    <h3>What it waits for</h3>
    ${error ? html`<${Trouble} error=${error} />` : report ? html`<div class="report"><ul><${Parent} of=${report} namespace=${r.namespace} /></ul></div>` : html`<${Waiting}>Asking its controllers<//>`}
    <${Commands} lines=${[`berth explain ${r.kind.toLowerCase()}/${shell(r.name)} -n ${shell(r.namespace)}`, ...(r.kind === "Job" ? [] : [`kubectl rollout status ${it}`]), `kubectl describe ${it}`]} />
    <p><a href=${link(["events"], { filter: `${r.kind}/${r.namespace}/${r.name}` })}>Its events</a></p>
  </section>`;
}

// Parent is what controllers say of one object, and below it what keeps its pods and
// children.
function Parent({ of, namespace }) {
  return html`<li><b>${of.kind} ${of.name}</b>
    <ul>
      ${of.controllers.length === 0 && html`<li>No controller looks after it.</li>`}
      ${of.controllers.map((c) => html`<li key=${c.policy}><a href=${link(["policies", c.policy])}>${c.policy}</a>: ${says(c)}</li>`)}
      ${(of.pods || []).map((p) => html`<li key=${p.reason + p.message}>${p.count === 1 ? "Pod" : `${p.count} pods such as`} <a href=${link(["decision", namespace, p.example])}>${p.example}</a>: ${p.reason}${p.message && `: ${p.message}`}</li>`)}
      ${(of.children || []).map((c) => html`<${Parent} key=${c.kind + c.name} of=${c} namespace=${namespace} />`)}
    </ul></li>`;
}

function says(c) {
  if (!c.asked) return "was not asked about it yet";
  const all = [...(c.why || []), ...new Set([c.refused, c.error].filter(Boolean))];
  return (all.join("; ") || "it has nothing to do") + (c.again ? ` (is asked again at ${new Date(c.again).toLocaleTimeString()})` : "");
}
