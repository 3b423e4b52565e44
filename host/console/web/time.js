// The cluster as it was: a slider over the log of decisions.

import { html, useMemo, useRef } from "./vendor/preact.js";
import { Grid, empty, inOrder, told } from "./grid.js";
import { Commands, Notice, Trouble, Waiting, Wide, ago, count, link, replace, shell, useAnswer } from "./parts.js";
import { GroupBy, Totals, fills, zone } from "./topology.js";

const clock = (ms) => new Date(ms).toLocaleString();

export function Time({ query }) {
  const label = query.label || zone;
  const { value, error } = useAnswer(`/console/v1/past?${new URLSearchParams({ at: query.at || "", label })}`, query.at ? 0 : 15000);
  const last = useRef();
  if (value) last.current = value;
  const moment = last.current;
  const change = (more) => replace(link(["time"], { ...query, ...more }));
  if (!moment) return error ? html`<${Trouble} error=${error} />` : html`<${Waiting}>Looking back<//>`;
  if (!moment.oldest) return html`<h1>Time</h1><${Notice} title="No decisions since the host's start">This view reads the log in the host's memory, which a restart empties: it has a past again once the scheduler has decided about a pod. What a host with <code>--record DIR</code> decided before lies on disk, for <code>berth replay NUMBER</code>.<//>`;
  return html`
    <h1>Time</h1>
    ${error && html`<p class="stale" role="status">${error.message}</p>`}
    <${Slider} moment=${moment} at=${query.at} busy=${!value} change=${change} />
    <form class="controls" onSubmit=${(e) => e.preventDefault()}><${GroupBy} label=${label} change=${(label) => change({ label })} />
      <fieldset><legend>Fill by</legend>${Object.keys(fills).map((name) => html`<label><input type="radio" name="fill" checked=${name === (query.fill || "cpu")} onChange=${() => change({ fill: name })} /> ${name}</label>`)}</fieldset></form>
    <${Past} moment=${moment} query=${query} change=${change} />
    <${Decisions} list=${moment.decisions} />
    <details><summary>How far this reaches</summary>
      <p>Back to the decision of ${clock(moment.oldest)}, ${ago(moment.oldest)} ago: as far as the log in the host's memory reaches, which <code>--log-memory</code> bounds and a restart empties. A host with <code>--record DIR</code> keeps older decisions on disk, for <code>berth replay</code>.</p>
      <p>Shown is what the scheduler knew between two decisions: nodes, their pods, and what these ask for, of all that you may list now. It cannot show what pods measurably used, their logs, their status, Events, or who waited: of those that waited it has the decisions about them.</p></details>
    <${Commands} lines=${moment.decisions.length ? [`berth replay ${moment.decisions[0].number}`] : []} />`;
}

function Slider({ moment, at, busy, change }) {
  const end = Math.max(moment.newest, moment.now ? Date.now() : moment.newest) + 1;
  const move = (to) => change({ at: to >= end ? "" : String(Math.max(moment.oldest, Math.round(to))) });
  const [newest] = moment.decisions;
  return html`<div class="time">
    <label>Time <input id="filter" type="range" min=${moment.oldest} max=${end} step=${Math.max(1, Math.round((end - moment.oldest) / 500))} value=${at || end} aria-valuetext=${at ? clock(Number(at)) : "now"}
      onInput=${(e) => move(Number(e.target.value))} /></label>
    <button type="button" disabled=${!newest} onClick=${() => move(newest.at - 1)}>One decision back</button>
    <button type="button" disabled=${!at} onClick=${() => change({ at: "" })}>Now</button>
    <output aria-live="polite">${at ? html`As it was at <b>${clock(Number(at))}</b>, ${ago(Number(at))} ago` : html`<b>Now</b>`}${busy ? " …" : ""} <small>Back to ${clock(moment.oldest)}: the log is kept in memory, and a restart of the host empties it.</small></output></div>`;
}

function Past({ moment, query, change }) {
  const cluster = useMemo(() => {
    const of = empty();
    if (moment.topology) told(of, moment.topology);
    return of;
  }, [moment]);
  const nodes = useMemo(() => inOrder(cluster, ""), [cluster]);
  const fill = fills[query.fill] ? query.fill : "cpu";
  return html`<div class="beside"><${Grid} nodes=${nodes} version=${cluster.version} cluster=${cluster} fill=${fills[fill]} chosen=${query.node} choose=${(node) => change({ node })} />
    <aside><${Totals} nodes=${nodes} cluster=${cluster} fill=${fill} choose=${(node) => change({ node })} /></aside></div>`;
}

// Decisions are those that were made last before the moment.
function Decisions({ list }) {
  if (!list.length) return html`<p>No decision about a pod that you may see was made before.</p>`;
  return html`<${Wide} label="Decisions"><table class="names"><caption>The last ${count(list.length, "decision")} before</caption><thead><tr><th>When</th><th>Pod</th><th>Outcome</th><th>Node</th><th class="n">Feasible</th><th>Message</th></tr></thead><tbody>
    ${list.map((d) => html`<tr key=${d.number}><td><a href=${link(["time"], { at: String(d.at) })}>${new Date(d.at).toLocaleTimeString()}</a></td>
      <td><a href=${link(["decision", d.namespace, d.pod], { number: String(d.number) })}>${d.namespace}/${d.pod}</a></td>
      <td><span class=${d.outcome === "Placed" ? "good" : "no"}>${d.outcome}</span></td><td>${d.node || d.made}</td><td class="n">${d.feasible} of ${d.nodes}</td>
      <td>${d.preempts > 0 && `${count(d.preempts, "pod")} had to go. `}${d.message}</td></tr>`)}
  </tbody></table><//>`;
}
