// Pods without a node, by what they wait for, and what would place them.

import { html } from "./vendor/preact.js";
import { Commands, Notice, Stale, Trouble, Waiting, ago, count, link, shell, useAnswer, useFrames } from "./parts.js";

export function Pending({ query }) {
  const { frame, state } = useFrames("pending", { open: query.reason || "" });
  if (!frame) return state.message ? html`<${Trouble} error=${state} />` : html`<${Waiting}>Looking at the queue<//>`;
  return html`
    <h1>Pending</h1>
    <${Stale} state=${state} />
    ${frame.pods === 0
      ? html`<${Notice} title="No pod waits for a node">None of those that you may see. One that does stands here at once, with its reason.<//>`
      : html`<p>${count(frame.pods, "pod")} without a node, for ${count(frame.groups.length + (frame.left || 0), "reason")}.</p>
          <ul class="groups">${frame.groups.map((g) => html`<${Group} key=${g.reason} group=${g} open=${query.reason === g.reason} />`)}</ul>`}
    <${Commands} lines=${["kubectl get pods --all-namespaces --field-selector=spec.nodeName="]} />`;
}

function Group({ group, open }) {
  const pods = group.pods || []; // they come with the next frame
  const first = pods[0];
  return html`<li>
    <a class="reason" aria-expanded=${!!open} href=${link(["pending"], open ? {} : { reason: group.reason })}>
      <b>${group.count.toLocaleString("en")}</b><span>${group.reason}</span><small>since ${ago(group.since)}</small>
    </a>
    ${open && first && html`<div class="members">
      ${group.tried && html`<${Advice} pod=${first} />`}
      <table><thead><tr><th>Pod</th><th>Waits for</th><th class="n">Tries</th></tr></thead><tbody>
        ${pods.map((p) => html`<tr key=${p.namespace + "/" + p.name}>
          <td><a href=${link(["decision", p.namespace, p.name])}>${p.namespace}/${p.name}</a></td><td>${ago(p.since)}</td><td class="n">${p.attempts}</td>
        </tr>`)}
      </tbody></table>
      ${group.count > pods.length && html`<p>and ${count(group.count - pods.length, "more", "more")}, which came later.</p>`}
      <${Commands} lines=${[`berth explain pod ${shell(first.name)} -n ${shell(first.namespace)}`]} />
    </div>`}
  </li>`;
}

// Advice is the one change that would place a pod, derived for the oldest of its group.
function Advice({ pod }) {
  const { value, error } = useAnswer(explainPath(pod.namespace, pod.name));
  if (error && !value) return html`<${Trouble} error=${error} />`;
  if (!value) return html`<${Waiting}>Asking the policies<//>`;
  const advice = advise(value);
  return html`<p class="advice"><b>What would place ${pod.name}:</b> ${advice.text} <a href=${link(["decision", pod.namespace, pod.name])}>See each node.</a></p>`;
}

export const explainPath = (namespace, name) => `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/explain?limit=1000`;

// advise finds the one change with the largest effect in a report: the policy that
// alone stands between the pod and the most nodes.
export function advise(report) {
  if (report.feasible > 0) return { text: `${count(report.feasible, "node")} can take it now: it goes there at its next try.` };
  if (report.nodes === 0) return { text: "a node: there is none yet." };
  const best = report.predicates.reduce((a, b) => (b.alone > a.alone ? b : a));
  if (best.alone === 0) return { text: `no single change: on each node at least two policies refuse it. ${nearest(report)}` };
  const reasons = reasonsOf(report, best.name);
  return { predicate: best.name, text: `${change(best.name, reasons)} Only ${best.name} keeps it from ${count(best.alone, "node")} of ${report.nodes}: ${reasons.join("; ")}.` };
}

// policiesIn are a row's refusals but for the host's own, the last column, which
// counts the room again that a policy has refused for.
function policiesIn(report, row) {
  const host = report.predicates.at(-1).name;
  const all = row.refusals || [];
  const others = all.filter((r) => r.predicate !== host);
  return others.length ? others : all;
}

// reasonsOf are what a policy says where it alone refuses, the most frequent first.
function reasonsOf(report, predicate) {
  const said = new Map();
  for (const row of report.rows || []) {
    const [first, second] = policiesIn(report, row);
    if (first?.predicate === predicate && !second) said.set(first.reason, (said.get(first.reason) || 0) + 1);
  }
  return [...said].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([reason]) => reason);
}

// nearest names the node where the fewest policies refuse.
function nearest(report) {
  if (!report.rows?.length) return "";
  const row = report.rows.reduce((a, b) => (policiesIn(report, b).length < policiesIn(report, a).length ? b : a));
  return `The nearest is ${row.node}, where ${policiesIn(report, row).map((r) => `${r.predicate} says: ${r.reason}`).join("; ")}.`;
}

// change words what Kubernetes' own reasons ask for; any other policy's reason has
// to speak for itself.
function change(predicate, reasons) {
  const reason = reasons[0] || "";
  const short = reason.match(/^Insufficient (\S+?)(,|$)/);
  if (short) return `request less ${short[1]}, or add a node with more of it free.`;
  if (/^Too many pods/.test(reason)) return "add a node, or remove pods: the nodes have as many as they may.";
  if (/taint/.test(reason)) return "tolerate the taint in the pod, or remove it from a node.";
  if (/node affinity\/selector/.test(reason)) return "label a node as the pod's nodeSelector or affinity asks, or ask for less there.";
  if (/unschedulable/.test(reason)) return "uncordon a node.";
  if (/topology spread/.test(reason)) return "loosen the pod's topologySpreadConstraints, or add nodes where few of its like are.";
  if (/affinity rules/.test(reason)) return "loosen the pod's (anti-)affinity, or that of the pods it names.";
  if (/ports/.test(reason)) return "take another host port, or add a node where it is free.";
  if (/volume|claim/i.test(reason)) return "mend the pod's volumes or claims.";
  return `do what ${predicate} asks for.`;
}
