// What policies say of each node for one pod: which they refuse, which they prefer.

import { html, useMemo } from "./vendor/preact.js";
import { Trouble, Waiting, count, link, useAnswer } from "./parts.js";

// untilDecided has what waits asked about again, for nodes fill: what was decided stays.
const untilDecided = (v) => (v?.derived === "decision" ? 0 : 10000);
const shown = 8; // nodes of the table

// useVerdicts asks for those of a pod, namespace/name.
export function useVerdicts(pod) {
  const [namespace, name] = (pod || "").split("/");
  return useAnswer(name && `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/explain?shape=columns`, untilDecided);
}

// marksOf are a policy's verdicts, or its scores between the lowest and the highest, by
// node; "all" is what all come to.
export function marksOf(v, policy) {
  const marks = new Map();
  const predicate = v.predicates.find((p) => p.name === policy);
  if (predicate) {
    predicate.rows.forEach((row, i) => marks.set(v.names[row], { refused: true, why: `${policy}: ${predicate.reasons[predicate.why[i]]}` }));
    return marks;
  }
  const scores = policy === "all" ? v.total : v.priorities.find((p) => p.name === policy)?.scores || [];
  const given = scores.filter((score) => score >= 0);
  const most = given.reduce((a, b) => Math.max(a, b), 0);
  const least = given.reduce((a, b) => Math.min(a, b), most);
  scores.forEach((score, i) => marks.set(v.names[i], score < 0
    ? { refused: true, why: `refused for ${v.namespace}/${v.pod}` }
    : { part: most > least ? 0.1 + (0.9 * (score - least)) / (most - least) : 1, why: `${policy === "all" ? "in all" : policy}: ${score}` }));
  return marks;
}

// Verdicts is the field for a pod, and its policies: one that is hovered or focused is
// seen on the nodes, one that is chosen stays.
export function Verdicts({ query, answer: { value: v, error }, policy, hover, change }) {
  const find = (event) => {
    event.preventDefault();
    const pod = event.target.pod.value.trim();
    change({ pod: pod && !pod.includes("/") ? "default/" + pod : pod, policy: "", fill: pod ? "score" : "" });
  };
  return html`<section class="card verdicts"><h2>Where could a pod go?</h2>
    <form class="controls" onSubmit=${find}><label>Pod <input name="pod" placeholder="namespace/name" value=${query.pod || ""} /></label> <button>Show</button></form>
    ${!query.pod && query.fill === "score" && html`<p>Name a pod: a policy's score is of one pod on each node.</p>`}
    ${query.pod && error && html`<${Trouble} error=${error} />`}
    ${query.pod && !v && !error && html`<${Waiting}>Asking the policies<//>`}
    ${query.pod && v && html`<${Policies} v=${v} policy=${policy} hover=${hover} change=${change} />`}
  </section>`;
}

function Policies({ v, policy, hover, change }) {
  const row = (name, text, says) => html`<li key=${name}><button type="button" aria-pressed=${policy === name} onMouseEnter=${() => hover(name)} onMouseLeave=${() => hover("")}
    onFocus=${() => hover(name)} onBlur=${() => hover("")} onClick=${() => change({ policy: name, fill: "score" })}><span>${text}</span><small>${says}</small></button></li>`;
  return html`
    <p>${v.node ? html`It is on <b>${v.node}</b>; ` : ""}${v.feasible} of ${count(v.names.length, "node")} can take it${v.derived === "decision" ? ", as it was decided" : ", as of now"}. ${v.note}</p>
    <ul class="says">
      ${row("all", "all policies together", `${v.feasible} nodes`)}
      ${v.predicates.map((p) => row(p.name, p.name, html`<span class="no">refuses ${p.rows.length}</span>`))}
      ${v.priorities.map((p) => row(p.name, p.name, `prefers, × ${p.weight}`))}
    </ul>
    ${policy && html`<${Said} v=${v} policy=${policy} />`}
    <p><a href=${link(["decision", v.namespace, v.pod])}>Each node by each policy</a></p>`;
}

// Said is the marks of one policy as a table.
function Said({ v, policy }) {
  const rows = useMemo(() => said(v, policy), [v, policy]);
  return html`<table><caption>${policy === "all" ? "All together" : policy}</caption><thead><tr><th>${rows.head}</th><th class="n">${rows.unit}</th></tr></thead>
    <tbody>${rows.list.map(([text, n]) => html`<tr key=${text}><td>${text}</td><td class="n">${n}</td></tr>`)}</tbody></table>`;
}

function said(v, policy) {
  const predicate = v.predicates.find((p) => p.name === policy);
  if (predicate) {
    const counts = predicate.reasons.map((reason) => [reason, 0]);
    for (const why of predicate.why) counts[why][1]++;
    return { head: "Reason", unit: "Nodes", list: counts.sort((a, b) => b[1] - a[1]).slice(0, shown) };
  }
  const scores = policy === "all" ? v.total : v.priorities.find((p) => p.name === policy)?.scores || [];
  const list = v.names.map((name, i) => [name, scores[i]]).filter(([, score]) => score >= 0);
  return { head: "Node", unit: "Score", list: list.sort((a, b) => b[1] - a[1]).slice(0, shown) };
}
