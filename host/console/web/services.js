// Services: who answers, and why nobody does.

import { html } from "./vendor/preact.js";
import { Bar, Commands, Filter, Notice, Stale, Trouble, Waiting, Wide, count, link, replace, shell, useAnswer, useFrames } from "./parts.js";

const shown = 30; // endpoints of a service
const { compare } = new Intl.Collator("en", { numeric: true });

export function Services({ path, query }) {
  const filter = query.filter || "";
  const chosen = path.length === 2 ? path.join("/") : "";
  const { frame, fresh, state } = useFrames("services", { filter, chosen });
  if (!frame) return state.message ? html`<${Trouble} error=${state} />` : html`<${Waiting}>Asking for the services<//>`;
  return html`
    <h1>Services</h1>
    <${Stale} state=${state} />
    <${Filter} value=${filter} hint="namespace/name" change=${(text) => replace(link(["services", ...path], { filter: text, node: query.node }))} />
    ${chosen && (frame.chosen
      ? html`<${Service} key=${chosen} namespace=${path[0]} name=${path[1]} node=${query.node || ""} filter=${filter} />`
      : fresh && html`<${Notice} title="Not there">There is no service ${chosen} that you may see.<//>`)}
    ${frame.all === 0
      ? html`<${Notice} title="No services">None of those that you may see. <code>kubectl expose deployment NAME --port=80</code> makes one.<//>`
      : html`<${Wide} label="Services"><table><thead><tr><th>Service</th><th>Type</th><th>Addresses</th><th>Ports</th><th>Answers</th><th class="n">Ready</th><th class="n">Endpoints</th></tr></thead><tbody>
          ${frame.rows.map((s) => html`<${Row} key=${s.namespace + "/" + s.name} of=${s} chosen=${s.namespace + "/" + s.name === chosen} />`)}
        </tbody></table><//>`}
    ${frame.left > 0 && html`<p>and ${count(frame.left, "more", "more")}: filter by name to see them.</p>`}
    <${Commands} lines=${["kubectl get services,endpointslices --all-namespaces"]} />`;
}

const Row = ({ of: s, chosen }) => html`<tr class=${chosen ? "chosen" : ""}>
  <td><a href=${link(["services", s.namespace, s.name])}>${s.namespace}/${s.name}</a></td><td>${s.type}</td>
  <td>${(s.addresses || []).join(", ")}</td><td>${(s.ports || []).join("; ")}</td>
  <td>${s.without || (s.endpoints === 0 ? html`<span class="no">nobody: it has no endpoints</span>` : s.ready === 0 ? html`<span class="no">nobody: none is ready</span>` : html`<${Bar} parts=${[["ready", s.ready / s.endpoints]]} />`)}</td>
  <td class="n">${s.ready}</td><td class="n">${s.endpoints}</td></tr>`;

function Service({ namespace, name, node, filter }) {
  const { value: report, error } = useAnswer(`/console/v1/service?${new URLSearchParams({ namespace, name, node })}`, 2000);
  return html`<section class="card"><h2>${namespace}/${name} <a class="close" href=${link(["services"], { filter })} aria-label="Close">×</a></h2>
    ${error && html`<${Trouble} error=${error} />`}
    ${!report && !error && html`<${Waiting}>Asking who answers<//>`}
    ${report && html`<${Report} of=${report} />`}
    <${Commands} lines=${[`berth explain service ${shell(name)} -n ${shell(namespace)}${node && ` --node ${shell(node)}`}`, `kubectl describe service ${shell(name)} -n ${shell(namespace)}`]} />
    <p><a href=${link(["events"], { filter: `Service/${namespace}/${name}` })}>Its events</a></p>
  </section>`;
}

// Report is what one node does with connections to the service, and its endpoints by
// the nodes that they are on.
function Report({ of: r }) {
  const ends = [...(r.endpoints || [])].sort((a, b) => a.answers - b.answers || compare(a.node, b.node));
  const answering = (r.endpoints || []).filter((e) => e.answers).length;
  return html`
    <p class="answer">${r.type === "ExternalName" ? "An alias." : answering > 0
      ? html`<span class="good">${count(answering, "endpoint answers", "endpoints answer")}</span>${r.node && ` to pods of ${r.node}`}.`
      : html`<span class="no">Nobody answers</span>${r.node && ` to pods of ${r.node}`}${why(r) && `: ${why(r)}`}.`}</p>
    ${(r.notes || []).map((n) => html`<p key=${n}>${n}.</p>`)}
    <table><caption>Connections</caption><thead><tr><th>To</th><th>Become</th></tr></thead><tbody>
      ${(r.fronts || []).map((f) => html`<tr key=${f.address + f.port + f.protocol}><td>${f.address || "each node"}, ${f.protocol} ${f.port}</td>
        <td>${target(f)}${f.outside && html`<br />from outside: ${target(f.outside)}`}${f.sources && html`<br />only from ${f.sources.join(", ")}`}</td></tr>`)}
    </tbody></table>
    ${r.endpoints?.length > 0 && html`<${Wide} label="Endpoints by node"><table><caption>Endpoints by node</caption><thead><tr><th>Node</th><th>Endpoint</th><th>Pod</th><th>Answers</th></tr></thead><tbody>
      ${ends.slice(0, shown).map((e) => html`<tr key=${e.address}><td>${e.node || "none"}</td><td>${e.address}</td>
        <td>${e.pod && html`<a href=${link(["decision", r.namespace, e.pod])}>${e.pod}</a>`}</td>
        <td>${e.answers ? html`<span class="good">yes</span>` : html`<span class="no">no</span>: ${e.why}`}</td></tr>`)}
    </tbody></table><//>`}
    ${ends.length > shown && html`<p>and ${count(ends.length - shown, "more", "more")}${ends[shown].answers ? ", which answer" : ""}.</p>`}
    ${r.missing && html`<table><caption>Pods that it means, and that are no endpoints</caption><tbody>
      ${r.missing.map((m) => html`<tr key=${m.pod}><td><a href=${link(["decision", r.namespace, m.pod])}>${m.pod}</a></td><td>${m.why}</td></tr>`)}
    </tbody></table>`}`;
}

// why is the reason that most endpoints, or else most pods without one, have in common.
function why(r) {
  const said = new Map();
  const all = r.endpoints?.length ? r.endpoints : r.missing || [];
  for (const { why } of all) said.set(why, (said.get(why) || 0) + 1);
  const [most] = [...said].sort((a, b) => b[1] - a[1]);
  return most && `${most[1]} of ${count(all.length, r.endpoints?.length ? "endpoint" : "pod")}: ${most[0]}`;
}

function target(t) {
  if (t.verdict === "Reject") return "refused, as nobody serves it";
  if (t.verdict === "Drop") return "dropped, as nobody serves it on this node";
  const to = t.backends?.length > 3 ? `one of ${t.backends.length}, by chance` : (t.backends || []).join(", ");
  return `go to ${to}${t.affinity ? `; the same for a client, for ${t.affinity}` : ""}`;
}
