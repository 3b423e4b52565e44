// What was told of objects, the newest first, folded by reason.

import { html } from "./vendor/preact.js";
import { Commands, Filter, Notice, Stale, Trouble, Waiting, Wide, ago, count, link, replace, shell, useFrames } from "./parts.js";

export function Events({ query }) {
  const filter = query.filter || "";
  const { frame, state } = useFrames("events", { filter });
  if (!frame) return state.message ? html`<${Trouble} error=${state} />` : html`<${Waiting}>Asking for the events<//>`;
  return html`
    <h1>Events</h1>
    <${Stale} state=${state} />
    <${Filter} label="Object" hint="Kind/namespace/name" value=${filter} change=${(text) => replace(link(["events"], { filter: text, open: query.open }))} />
    ${frame.folds.length === 0
      ? html`<${Notice} title="No events">${filter ? "None of an object of this name" : "None"} that you may see. They are kept for an hour.<//>`
      : html`<p>${count(frame.count, "event")}, for ${count(frame.folds.length + (frame.left || 0), "reason")}.</p>
          <ul class="groups">${frame.folds.map((f) => html`<${Fold} key=${key(f)} of=${f} open=${query.open === key(f)} filter=${filter} />`)}</ul>`}
    <${Commands} lines=${[command(filter)]} />`;
}

const key = (f) => `${f.type}/${f.reason}/${f.about}`;

const several = (kind) => kind.replace(/y$/, "ie").replace(/ss$/, "sse") + "s";

function command(filter) {
  const [kind, namespace, name] = filter.split("/");
  return name ? `kubectl events -n ${shell(namespace)} --for ${shell(`${kind.toLowerCase()}/${name}`)}` : "kubectl events --all-namespaces";
}

function Fold({ of: f, open, filter }) {
  const more = f.count - f.newest.reduce((sum, e) => sum + e.count, 0);
  return html`<li>
    <a class="reason" aria-expanded=${!!open} href=${link(["events"], { filter, open: open ? "" : key(f) })}>
      <b>${f.count.toLocaleString("en")}</b><span><span class=${f.type === "Normal" ? "" : "no"}>${f.reason}</span> <small>${count(f.objects, f.about, several(f.about))}</small>${!open && html`<br /><small>${f.newest[0].message}</small>`}</span><small>${ago(f.last)} ago</small>
    </a>
    ${open && html`<div class="members"><${Wide} label="Events"><table><thead><tr><th>Object</th><th>Message</th><th class="n">Times</th><th class="n">Last</th></tr></thead><tbody>
      ${f.newest.map((e) => html`<tr key=${e.object + e.message + e.last}><td>${about(e.object)}</td><td>${e.message}</td><td class="n">${e.count}</td><td class="n">${ago(e.last)} ago</td></tr>`)}
    </tbody></table><//>
    ${more > 0 && html`<p>and ${count(more, "older one")}: name an object to see its own.</p>`}</div>`}
  </li>`;
}

// about leads to the view of an object, where there is one.
function about(object) {
  const [kind, namespace, name] = object.split("/");
  if (name && kind === "Pod") return html`<a href=${link(["decision", namespace, name])}>${object}</a>`;
  if (name && kind === "Service") return html`<a href=${link(["services", namespace, name])}>${object}</a>`;
  if (name && ["Deployment", "StatefulSet", "DaemonSet", "Job"].includes(kind)) return html`<a href=${link(["workloads", kind, namespace, name])}>${object}</a>`;
  return html`<a href=${link(["events"], { filter: object })}>${object}</a>`;
}
