// Pushing a module: upload, rehearsal, and only then what decides.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { get, patch, post } from "./api.js";
import { Notice, Wide, count, link, shell } from "./parts.js";

const api = "/apis/policy.berth.dev/v1alpha1/";
const decisions = 200; // are made again before it goes live
const named = 20; // changes are told one by one

export function Push({ policies }) {
  const [module, setModule] = useState();
  const [stages, setStages] = useState([]);
  const alive = useRef(true);
  useEffect(() => () => { alive.current = false; }, []);

  // stage does one step, and shows how it goes.
  const stage = async (title, step) => {
    const mark = (state, text) => setStages((all) => [...all.filter((s) => s.title !== title), { title, state, text }]);
    mark("goes");
    try {
      const { text, value } = await step((so) => mark("goes", so));
      mark("done", text);
      return value;
    } catch (error) {
      mark("failed", error.message);
      throw error;
    }
  };
  const take = async (file) => {
    setModule();
    setStages([]);
    if (!file) return;
    const made = await stage("Uploaded, vetted and compiled", async () => {
      const value = await (await post(api + "modules", file, "application/wasm")).json();
      return { value, text: `${file.name}, ${(file.size / 1024).toFixed(0)} KiB, is ${short(value.metadata.name)}: ${value.status.entries.map((e) => `${e.name} (${e.kind})`).join(", ")}` };
    }).catch(() => null);
    if (made && alive.current) setModule({ made, file: file.name });
  };
  return html`<section class="card"><h2>Push a module <a class="close" href=${link(["policies"])} aria-label="Close">×</a></h2>
    <${Drop} take=${take} />
    <ol class="stages">${stages.map((s) => html`<li key=${s.title} class=${s.state}><b>${s.title}</b> ${s.state === "goes" && html`<progress aria-label=${s.title}></progress>`} ${s.text}</li>`)}</ol>
    ${module && html`<${Plan} key=${module.made.metadata.name} module=${module.made} file=${module.file} policies=${policies} stage=${stage} alive=${alive} />`}
  </section>`;
}

// Drop takes a file that is dropped or chosen.
function Drop({ take }) {
  const [over, setOver] = useState(false);
  const hover = (event) => { event.preventDefault(); setOver(event.type === "dragover"); };
  return html`<label class=${"drop" + (over ? " over" : "")} onDragOver=${hover} onDragLeave=${hover} onDrop=${(e) => { hover(e); take(e.dataTransfer.files[0]); }}>
    Drop a <code>.wasm</code> here, or choose one: <input type="file" accept=".wasm" onChange=${(e) => take(e.target.files[0])} /></label>
    <p><small><code>berth policy build DIR -o FILE.wasm</code> makes one of a folder. A config, signatures and a controller's ServiceAccount are for <code>berth policy push</code>.</small></p>`;
}

const short = (module) => module.replace(/^sha256[:-]/, "").slice(0, 12);
const kebab = (name) => name.replace(/([a-z0-9])([A-Z])/g, "$1-$2").toLowerCase();

// entryOf is the entry of a module that was picked, or that its policy runs, or that is
// called like its file.
export const entryOf = (entries, ...names) => names.map((name) => entries.find((e) => e.name === name)).find(Boolean) || entries[0];

// nameOf is the policy that a file is likely for, or what a new one may be called.
const nameOf = (policies, guess, entries) =>
  policies.find((p) => [guess, entryOf(entries, guess).name].includes(p.metadata.name))?.metadata.name || kebab(guess);

// Plan is what a module that is uploaded shall become.
function Plan({ module, file, policies, stage, alive }) {
  const entries = module.status.entries;
  const guess = file.replace(/\.wasm$/, "");
  const [picked, setEntry] = useState();
  const [name, setName] = useState(() => nameOf(policies, guess, entries));
  const [wanted, setShare] = useState(0);
  const [rehearsal, setRehearsal] = useState();
  const [busy, setBusy] = useState(false);
  const [live, setLive] = useState(false);
  const was = policies.find((p) => p.metadata.name === name);
  const runs = was && (was.spec.entry || name);
  const { name: entry, kind } = entryOf(entries, picked, runs, guess);
  // A canary runs the entry of its policy.
  const tries = was && kind !== "gate" && entry === runs;
  const share = tries ? wanted : 0;
  const set = (change) => (event) => { setRehearsal(); change(event.target.value); };

  if (kind === "controller") return html`<${Notice} title="A controller">It acts as a ServiceAccount: push it by <code>berth policy push ${name} ${file} --service-account NAMESPACE/NAME</code>.<//>`;
  const doing = (step) => async () => { setBusy(true); await step().catch(() => {}); if (alive.current) setBusy(false); };
  const rehearse = doing(async () => setRehearsal(await stage("Rehearsed", async () => {
    if (!["predicate", "priority"].includes(kind)) return { value: {}, text: `Nothing to rehearse: a ${kind} decides about no placement.` };
    const one = { name, module: module.metadata.name, entry, mode: "Enforce", ...(was ? {} : { profile: "default", weight: 1 }) };
    const value = await (await post("/berth/v1/rehearsal", JSON.stringify({ policies: [one], decisions }), "application/json")).json();
    return { value, text: value.note || `The last decisions about ${count(value.decisions, "pod")} were made again: ${value.changed ? `${value.changed} would have ended otherwise.` : "all would have ended as they did."}` };
  })));
  const go = doing(async () => {
    await stage(share > 0 ? "On trial" : "Live", (so) => apply({ name, module, entry, kind, share: Number(share), was, so, alive }));
    setLive(true);
  });
  return html`
    <form class="controls" onSubmit=${(e) => { e.preventDefault(); rehearse(); }}>
      ${entries.length > 1 && html`<label>Policy in the module <select value=${entry} onChange=${set(setEntry)}>${entries.map((e) => html`<option key=${e.name} value=${e.name}>${e.name}</option>`)}</select></label>`}
      <label>Name <input required pattern="[A-Za-z0-9]([A-Za-z0-9.]|-)*" value=${name} onInput=${(e) => { setEntry(); set(setName)(e); }} /></label>
      ${tries && html`<label>Decides <select value=${share} onChange=${set(setShare)}><option value="0">all pods</option>${[1, 10, 50].map((n) => html`<option key=${n} value=${n}>${n} % of the pods, as a canary</option>`)}</select></label>`}
      <button disabled=${busy || live}>Rehearse</button>
    </form>
    <p>${was ? `It takes the place of ${short(was.status?.live || was.spec.module)}, which is live${was.metadata.labels?.["policy.berth.dev/builtin"] ? " and built in" : ""}.` : kind === "gate" ? "It becomes a new policy." : "It becomes a new policy, in the profile default."}</p>
    ${rehearsal && html`<${Rehearsal} of=${rehearsal} go=${go} busy=${busy || live} label=${share > 0 ? `Let it decide ${share} %` : "Make it live"} />`}
    ${live && html`<p><a href=${link(["policies", name])}>See ${name}</a>: what it does, and how to take it back.</p>`}`;
}

// Rehearsal shows what would have gone elsewhere, and holds what would leave pods
// without a node, or fails.
function Rehearsal({ of: r, go, busy, label }) {
  const [sure, setSure] = useState(false);
  const against = [
    r.failed > 0 && `it fails in ${count(r.failed, "decision")}, first: ${r.failure}`,
    !(r.failed > 0) && r.rowsFailure && `it fails on ${r.rows} nodes: ${r.rowsFailure}`,
    !(r.failed > 0) && r.stranded > 0 && `${count(r.stranded, "pod")} would find no node any more`,
  ].filter(Boolean);
  return html`
    ${against.length > 0 && html`<p class="stale"><b>Held:</b> ${against.join("; ")}. <label><input type="checkbox" checked=${sure} onChange=${(e) => setSure(e.target.checked)} /> nevertheless</label></p>`}
    <p><button type="button" disabled=${busy || (against.length > 0 && !sure)} onClick=${go}>${label}</button></p>
    ${r.changes?.length > 0 && html`<${Wide} label="Would have ended otherwise"><table><caption>Would have ended otherwise</caption><thead><tr><th>Pod</th><th>Was</th><th>Would be</th><th>Why</th></tr></thead><tbody>
      ${r.changes.slice(0, named).map((c) => html`<tr key=${c.number}><td>${c.namespace}/${c.pod}</td><td>${c.was || "none"}</td><td>${c.would || html`<span class="no">none</span>`}</td><td>${c.why}</td></tr>`)}
    </tbody></table><//>${r.changed > named && html`<p>and ${count(r.changed - named, "more", "more")}.</p>`}`}`;
}

// apply writes the Policy, has a new one join the profile, and waits until the host
// says what came of it.
async function apply({ name, module, entry, kind, share, was, so, alive }) {
  const path = `${api}policies/${encodeURIComponent(name)}`;
  so("Writing the policy");
  let written;
  if (share > 0) written = await patch(path, { canary: { module: module.metadata.name, share } });
  else if (was) written = await patch(path, { module: module.metadata.name, entry, ...(was.spec.canary ? { canary: null } : {}) });
  else written = await post(api + "policies", JSON.stringify({ apiVersion: "policy.berth.dev/v1alpha1", kind: "Policy", metadata: { name }, spec: { module: module.metadata.name, entry } }), "application/json");
  const { metadata: { generation } } = await written.json();
  if (!was && kind !== "gate") {
    so("Joining the profile");
    await join(kind, name).catch((error) => { throw new Error(`${name} is there, but not in the profile default: ${error.message}`); });
  }
  for (;;) {
    const { spec, status = {} } = await get(path);
    if (status.observedGeneration >= generation) {
      if (share > 0 && status.canary?.phase === "Running") return { text: `It decides ${share} % of the pods, and is rolled back by itself when it fails.` };
      if (share > 0 && status.canary?.phase === "RolledBack") throw new Error(`It was rolled back: ${status.canary.message || status.canary.reason}`);
      if (!share && status.phase === "Off") return { text: `${name} is written, and off: it is asked about nothing.` };
      if (!share && status.phase === "Live") return { text: spec.mode === "Shadow" ? `${name} is a shadow, which decides nothing: berth policy diff ${shell(name)}` : `${name} decides from now on.` };
      if (!share) throw new Error(status.message || `It is ${status.phase}: berth policy inspect ${shell(name)}`);
    }
    if (!alive.current) throw new Error("the page was left");
    so("Waiting for the host to open it");
    await new Promise((done) => setTimeout(done, 300));
  }
}

// join adds a new predicate or priority to the profile default; who writes it at the
// same time is not undone.
async function join(kind, name) {
  const path = api + "profiles/default";
  for (;;) {
    const { metadata: { resourceVersion }, spec } = await get(path);
    const list = kind === "predicate" ? "predicates" : "priorities";
    const members = spec[list] || [];
    if (members.some((m) => m.name === name)) return;
    try {
      await patch(path, { [list]: [...members, kind === "predicate" ? { name } : { name, weight: 1 }] }, resourceVersion);
      return;
    } catch (error) {
      if (error.status !== 409) throw error;
    }
  }
}
