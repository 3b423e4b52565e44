// The profiles: which policies decide for which pods, in which order.

import { html } from "./vendor/preact.js";
import { Commands, Notice, Trouble, Waiting, link, shell, useAnswer } from "./parts.js";

export function Profiles() {
  const { value: list, error } = useAnswer("/apis/policy.berth.dev/v1alpha1/profiles", 5000);
  if (!list) return error ? html`<${Trouble} error=${error} />` : html`<${Waiting}>Asking for the profiles<//>`;
  return html`<h1>Profiles</h1>
    ${list.items.length === 0 && html`<${Notice} title="No profile">No pod is decided about.<//>`}
    ${list.items.map((p) => html`<${Profile} key=${p.metadata.name} profile=${p} all=${list.items} />`)}
    <${Commands} lines=${["kubectl get profiles"]} />`;
}

const names = (profile) => profile.spec.schedulerNames?.length ? profile.spec.schedulerNames : [profile.metadata.name];

function Profile({ profile, all }) {
  const { name } = profile.metadata;
  const { predicates = [], priorities = [], groups = [] } = profile.spec;
  const members = (group) => groups.find((g) => g.name === group)?.members;
  const conflict = all.filter((o) => o !== profile && names(o).some((n) => names(profile).includes(n)));
  const condition = profile.status?.conditions?.find((c) => c.status !== "True");
  return html`<section class="card"><h2>${name}</h2>
    <p>Decides for pods with the schedulerName ${names(profile).map((n) => html`<code key=${n}>${n}</code> `)}
      ${conflict.length > 0 && html`<span class="no">which ${conflict.map((o) => o.metadata.name).join(", ")} claims, too</span>`}</p>
    ${condition && html`<p class="no">${condition.message}</p>`}
    <ol class="pipeline">
      ${predicates.map((p) => html`<li key=${p.name}>${members(p.name) ? html`<b>${p.name}</b>: ${members(p.name).map(policy)}` : policy(p.name)}</li>`)}
      ${priorities.map((p) => html`<li class="scores" key=${p.name}>${policy(p.name)} <small>× ${p.weight}</small></li>`)}
    </ol>
    <${Commands} lines=${[`kubectl get profile ${shell(name)} -o yaml`]} />
  </section>`;
}

const policy = (name) => html`<a key=${name} href=${link(["policies", name])}>${name}</a> `;
