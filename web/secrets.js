// Secrets of tenants: their names, times and the jobs that name them. A value goes to the coordinator
// and never comes back.

import * as api from "./api.js";
import { ask, choice, field, input } from "./dialog.js";
import { h, jobLink, show, table } from "./dom.js";
import { ago, plural, time } from "./format.js";
import { maySetSecrets, who } from "./session.js";

const SHOWN_MAX = 500;

// Several lines, as keys have them; drawn as dots, and given to no spelling checker.
const valueField = () => field("Value", h("textarea", { name: "value", class: "masked", rows: "3", required: true, autocomplete: "off", spellcheck: "false", autocapitalize: "off" }), "shown as dots, and never again; a final newline is left out");

// A form ends lines with CR LF, whatever was typed.
const valueOf = (form) => form.value.replaceAll("\r\n", "\n").replace(/\n$/, "");

function setNew(all, tenants, refresh) {
  ask({
    title: "New secret", yes: "Set",
    body: [
      field("Name", input("name", { required: true, pattern: "[a-z0-9][a-z0-9.\\-]*", maxlength: "63" }), "jobs say it: muster submit --secret VARIABLE=NAME"),
      who().tenant ? null : field("Tenant", choice("tenant", tenants, "default")),
      valueField(),
    ].filter(Boolean),
    act: async (form) => {
      const tenant = form.tenant || who().tenant;
      if (all().some((secret) => secret.name === form.name && secret.tenant === tenant)) throw new Error(`Tenant ${tenant} has a secret ${form.name}: replace it in the list`);
      await api.setSecret(form.name, tenant, valueOf(form));
      await refresh();
    },
  });
}

const replace = (secret, refresh) => ask({
  title: `Replace ${secret.name}`, yes: "Replace",
  body: [h("p", {}, "Workers that start after this have the new value; those that run keep theirs."), valueField()],
  act: async (form) => {
    await api.setSecret(secret.name, secret.tenant, valueOf(form));
    await refresh();
  },
});

function remove(secret, refresh) {
  const jobs = secret.jobs_count || 0;
  ask({
    title: `Remove ${secret.name}?`, yes: "Remove", danger: true,
    body: [h("p", {}, "It cannot be taken back. Workers that run keep its value."),
      jobs > 0 && h("p", {}, `${plural(jobs, "job")} that ${jobs === 1 ? "has" : "have"} not ended ${jobs === 1 ? "names" : "name"} it, and ${jobs === 1 ? "fails" : "fail"} when workers are started: `, jobsOf(secret))].filter(Boolean),
    act: async () => {
      await api.removeSecret(secret.name, secret.tenant);
      await refresh();
    },
  });
}

function jobsOf({ jobs = [], jobs_count = 0 }) {
  if (!jobs_count) return h("span", { class: "dim" }, "none");
  return h("span", { class: "list" }, jobs.map(({ job, name }) => h("span", { class: "named" }, jobLink(job, name), h("span", { class: "dim" }, job))),
    jobs_count > jobs.length && h("span", { class: "dim" }, `and ${jobs_count - jobs.length} more`));
}

const changed = (secret) => h("span", {}, ago(secret.changed_wall_ms), h("div", { class: "dim small" }, `by ${secret.changed_by}`),
  secret.lost && h("div", { class: "error small" }, "✕ its key is not here"));

const actions = (secret, refresh) => h("span", { class: "switches" },
  h("button", { class: "quiet", "aria-label": `replace ${secret.name} of ${secret.tenant}`, onclick: () => replace(secret, refresh) }, "replace"),
  h("button", { class: "quiet", "aria-label": `remove ${secret.name} of ${secret.tenant}`, onclick: () => remove(secret, refresh) }, "remove"));

const lostNote = (lost) => lost > 0 && h("section", { class: "cause bad", "data-key": "lost", "aria-label": "Secrets that cannot be opened" },
  h("h2", {}, `${plural(lost, "secret")} cannot be opened`),
  h("p", {}, "The key that sealed them is not here; jobs that name them do not start, and none can be set. An administrator puts the coordinator's file of keys back, or gives them up: ", h("code", {}, "muster secret rekey --drop-lost")));

export function secretsView(root) {
  const body = h("div");
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter secrets by text", "data-shortcut": "/", oninput: () => draw() });
  const add = maySetSecrets() && h("button", { class: "quiet", onclick: () => setNew(() => all, tenants, () => view.refresh()) }, "New secret");
  root.replaceChildren(h("h1", {}, "Secrets"), h("div", { class: "tools" }, h("p", { class: "dim" }, "Workers of a job that names one have its value; nobody else is shown it."), h("span", { class: "toggles" }, filter, add || "")), body);
  let all = [], tenants = [];

  function draw() {
    const word = filter.value.trim().toLowerCase();
    const has = (s) => [s.name, s.tenant, s.created_by, s.changed_by, ...(s.jobs || []).flatMap(({ job, name }) => [job, name])].some((text) => text?.toLowerCase().includes(word));
    const found = word ? all.filter(has) : all;
    const titles = ["Name", "Tenant", "Changed", "Created", "Named by", "Used", ...(maySetSecrets() ? ["Actions"] : [])];
    show(body, lostNote(all.filter((secret) => secret.lost).length),
      table(titles, found.slice(0, SHOWN_MAX).map((secret) => ({ key: `${secret.tenant}/${secret.name}`, cells: [
        h("span", { class: "clip", title: secret.name }, secret.name), h("span", { class: "clip", title: secret.tenant }, secret.tenant), changed(secret), time(secret.created_wall_ms), jobsOf(secret),
        Number(secret.used_wall_ms) ? ago(secret.used_wall_ms) : "never", ...(maySetSecrets() ? [actions(secret, view.refresh)] : []),
      ] })), all.length ? "No secret has that in it." : "No secrets yet. In a terminal: muster secret set NAME", "Secrets"),
      found.length > SHOWN_MAX && h("p", { class: "dim" }, `and ${found.length - SHOWN_MAX} more: muster secret list has all.`));
  }

  const view = {
    async refresh() {
      const [answer, known] = await Promise.all([api.listSecrets(), maySetSecrets() && !who().tenant ? api.listTenants() : null]);
      all = answer.secrets || [];
      tenants = (known?.tenants || []).map((tenant) => tenant.name);
      draw();
    },
  };
  return view;
}
