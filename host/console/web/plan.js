// Where pods would go, without making any: by the policies of today, and beside them
// with another module.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { post } from "./api.js";
import { Grid, inOrder } from "./grid.js";
import { Commands, Trouble, Wide, count, useAnswer } from "./parts.js";
import { fills, useCluster, zone } from "./topology.js";

const together = 6; // pods are completed at a time
const example = `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: web
    image: example.test/web:1
    resources:
      requests: {cpu: "2", memory: 4Gi}
`;

export function Plan() {
  const [manifest, setManifest] = useState("");
  const [namespace, setNamespace] = useState("default");
  const [module, setModule] = useState();
  const [name, setName] = useState("");
  const [progress, setProgress] = useState("");
  const [result, setResult] = useState({});
  const asked = useRef(0);
  useEffect(() => () => { asked.current++; }, []);
  const { value: policies } = useAnswer("/apis/policy.berth.dev/v1alpha1/policies");
  const names = (policies?.items || []).map((p) => p.metadata.name);

  const go = async (event) => {
    event.preventDefault();
    const mine = ++asked.current;
    const tell = (text) => mine === asked.current && setProgress(text);
    setResult({});
    try {
      const made = await planned({ manifest, namespace, module: module && { ...module, name, profile: names.includes(name) ? undefined : "default" }, tell });
      if (mine === asked.current) setResult(made);
    } catch (error) {
      if (mine === asked.current) setResult({ error });
    }
    tell("");
  };
  const takeYAML = async (file) => file && setManifest(await file.text());
  const takeModule = async (file) => {
    if (!file) return setModule();
    setModule({ file: file.name, wasm: await base64(file) });
    setName(file.name.replace(/\.wasm$/, ""));
  };
  return html`
    <h1>Plan</h1>
    <form class="plan" onSubmit=${go}>
      <${Drop} take=${takeYAML}><label for="manifest">Pods, in YAML or JSON: paste them, or drop a file here</label>
        <textarea id="manifest" rows="7" spellcheck="false" placeholder=${example} value=${manifest} onInput=${(e) => setManifest(e.target.value)}></textarea><//>
      <div class="controls">
        <label>Namespace of those that name none <input value=${namespace} required onInput=${(e) => setNamespace(e.target.value)} /></label>
        <button type="button" onClick=${() => setManifest(example)}>An example</button>
      </div>
      <${Drop} take=${takeModule}><label>Beside it, with another module (.wasm, optional): <input type="file" accept=".wasm" onChange=${(e) => takeModule(e.target.files[0])} /></label>
        ${module && html`<p>${module.file} in place of the policy <input aria-label="Policy" list="policies" required value=${name} onInput=${(e) => setName(e.target.value)} />
          <datalist id="policies">${names.map((n) => html`<option value=${n} />`)}</datalist> ${name && !names.includes(name) && "(a new one, in the profile default)"}</p>`}<//>
      <p><button disabled=${!manifest.trim() || progress !== ""}>Plan</button> Nothing is created, and nothing is written.</p>
    </form>
    ${progress && html`<p class="waiting" role="status"><progress aria-label="planning"></progress> ${progress}</p>`}
    ${result.error && html`<${Trouble} error=${result.error} once />`}
    ${result.today && html`<${Placed} result=${result} />`}
    <${Commands} lines=${["berth plan -f PODS.yaml", "berth plan -f PODS.yaml --policy NAME=FILE.wasm"]} />`;
}

// Drop takes a file that is dropped on what it holds.
function Drop({ take, children }) {
  const [over, setOver] = useState(false);
  const hover = (event) => { event.preventDefault(); setOver(event.type === "dragover"); };
  return html`<div class=${"drop" + (over ? " over" : "")} onDragOver=${hover} onDragLeave=${hover} onDrop=${(e) => { hover(e); take(e.dataTransfer.files[0]); }}>${children}</div>`;
}

const base64 = (file) => new Promise((done, failed) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result.split(",")[1] || "");
  reader.onerror = () => failed(reader.error);
  reader.readAsDataURL(file);
});

// planned reads the manifest, has each pod completed as a creation that is not carried
// out, and asks where they would go: {today, varied}.
async function planned({ manifest, namespace, module, tell }) {
  tell("Reading the manifest");
  const { items } = await (await post("/console/v1/pods", manifest, "application/yaml")).json();
  let done = 0;
  const pods = new Array(items.length);
  const complete = async (from) => {
    for (let i = from; i < items.length; i += together) {
      pods[i] = await completed(items[i], namespace);
      tell(`Completing pods: ${++done} of ${items.length}`);
    }
  };
  await Promise.all(Array.from({ length: together }, (_, from) => complete(from)));
  const ask = async (more) => (await post("/berth/v1/plan", JSON.stringify({ items: pods, ...more }), "application/json")).json();
  tell(`Planning ${count(items.length, "pod")}`);
  const today = await ask({});
  if (!module) return { today };
  tell(`Planning with ${module.file}`);
  const { name, wasm, profile, file } = module;
  return { today, varied: await ask({ policies: [{ name, wasm, profile }] }), name, file };
}

// completed gives a pod its defaults, under a name that no pod has yet.
async function completed(pod, namespace) {
  const { name, generateName, uid, resourceVersion, ...rest } = pod.metadata || {};
  const { nodeName, ...spec } = pod.spec || {};
  const of = rest.namespace || namespace;
  const asked = { apiVersion: "v1", kind: "Pod", metadata: { ...rest, namespace: of, generateName: generateName || "planned-" }, spec };
  const made = await (await post(`/api/v1/namespaces/${encodeURIComponent(of)}/pods?dryRun=All`, JSON.stringify(asked), "application/json")).json();
  if (name) made.metadata.name = name;
  return made;
}

// Placed is a plan: on the nodes, and as a table.
function Placed({ result: { today, varied, name, file } }) {
  const { cluster, version } = useCluster(zone);
  const nodes = useMemo(() => inOrder(cluster, ""), [cluster.shape, version > 0]);
  const differs = (i) => varied && varied[i].node !== today[i].node;
  const without = (list) => list.filter((p) => !p.node).length;
  const says = (list) => `${count(list.length - without(list), "pod")} would get a node, ${without(list)} none`;
  return html`
    <p class="answer" role="status">${says(today)}.${varied && html` With <b>${name}</b> of ${file}: ${says(varied)}; ${count(today.filter((_, i) => differs(i)).length, "pod")} would go elsewhere.`}</p>
    ${version > 0 && html`<div class=${varied ? "two" : ""}>
      <${Ghosts} title="Today's policies" placed=${today} nodes=${nodes} cluster=${cluster} version=${version} />
      ${varied && html`<${Ghosts} title=${`With ${name} of ${file}`} placed=${varied} nodes=${nodes} cluster=${cluster} version=${version} />`}
    </div>`}
    <${Wide} label="Where pods would go"><table class="names"><thead><tr><th>Pod</th><th>Node</th>${varied && html`<th>With ${name}</th>`}<th>Preempts</th><th class="n">Feasible</th><th class="n">Score</th><th>Why not</th></tr></thead><tbody>
      ${today.map((p, i) => html`<tr key=${i} class=${differs(i) ? "chosen" : ""}><td>${p.namespace}/${p.pod}</td>
        <td>${p.node || html`<span class="no">none</span>`}</td>${varied && html`<td>${differs(i) ? varied[i].node || html`<span class="no">none</span>` : "the same"}</td>`}
        <td>${(p.preempts || []).join(", ")}</td><td class="n">${p.feasible} of ${p.nodes}</td><td class="n">${p.node ? p.score || 0 : ""}</td>
        <td>${p.message}${differs(i) && varied[i].message && html` With ${name}: ${varied[i].message}`}</td></tr>`)}
    </tbody></table><//>`;
}

function Ghosts({ title, placed, nodes, cluster, version }) {
  const marks = useMemo(() => {
    const by = new Map();
    for (const p of placed.filter((p) => p.node)) {
      const had = by.get(p.node) || { ghosts: 0, why: "would get" };
      by.set(p.node, { ghosts: had.ghosts + 1, why: had.ghosts < 5 ? `${had.why} ${p.namespace}/${p.pod}` : had.why });
    }
    return by;
  }, [placed]);
  return html`<section class="card"><h2>${title}</h2><${Grid} nodes=${nodes} version=${version} cluster=${cluster} fill=${fills.cpu} marks=${marks} label=${`${title}: nodes with the pods that would come, as the table below tells them`} /></section>`;
}
