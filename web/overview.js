// The cluster at a glance: what is busy and with what, who waits and why, who holds how much, and
// what ended last.

import * as api from "./api.js";
import { ended, h, jobColour, jobLink, section, show, state, table, waiting } from "./dom.js";
import { ago, count, loss, plural, rate, span, step, until } from "./format.js";
import { markJobs, tiles } from "./tiles.js";
import { shareBar } from "./shares.js";

const ACTIVE_MAX = 200, ENDED_SHOWN = 8, TILES_MAX = 120, RUNNING_SHOWN = 20, QUEUE_SHOWN = 12;
const SLOW_MS = 1500; // plans and what ended are asked for no more often

function figure(number, unit, text) {
  return h("div", { class: "figure", "data-key": unit }, h("strong", {}, number), h("span", {}, unit), h("small", {}, text));
}

function figures(nodes, active, more) {
  const ready = nodes.filter((n) => n.state === "ready");
  const slots = ready.reduce((sum, n) => sum + (n.slots || 0), 0);
  const used = nodes.reduce((sum, n) => sum + (n.slots_used || 0), 0);
  const queue = active.filter(waiting);
  const speed = active.reduce((sum, j) => sum + (waiting(j) ? 0 : Number(j.tokens_per_second || 0)), 0);
  const words = {};
  for (const n of nodes) if (n.state !== "ready") words[n.state] = (words[n.state] || 0) + 1;
  return [
    figure(`${used} / ${slots}`, "slots in use", `${Math.max(0, slots - used)} free`),
    figure(`${ready.length}`, ready.length === 1 ? "node ready" : "nodes ready", Object.entries(words).map(([w, n]) => `${n} ${w}`).join(", ") || "none missing"),
    figure(`${active.length - queue.length}${more ? "+" : ""}`, "running", speed > 0 ? `${count(speed)} tokens/s together` : "no tokens told"),
    figure(`${queue.length}${more ? "+" : ""}`, "waiting", queue.length ? `the first for ${span(Date.now() - Math.min(...queue.map((j) => Number(j.submitted_wall_ms))))}` : "nobody waits"),
  ];
}

const progress = (job) => (Number(job.total_steps) ? h("progress", { max: "1", value: Number(job.step || 0) / Number(job.total_steps), "aria-label": `Progress of ${job.spec?.name}` }) : "");
const named = (job, colour) => h("span", { class: "named" }, colour && h("span", { class: `swatch ${colour}` }), jobLink(job.id, job.spec?.name), h("span", { class: "dim" }, job.id));
const left = (list, shown) => list.length > shown && h("p", { class: "dim" }, `and ${list.length - shown} more, under `, h("a", { href: "#/jobs?state=active" }, "Jobs"));

function runningTable(jobs) {
  return section("Running", null, table(["Job", "State", ">Workers", ">Step", "Progress", ">Loss", ">Tokens/s"],
    jobs.slice(0, RUNNING_SHOWN).map((job) => ({ key: job.id, cells: [named(job, jobColour(job.id)), state(job.state), job.world || 0, step(job), progress(job), loss(job.loss), rate(job)] })),
    "Nothing runs.", "Running jobs"), left(jobs, RUNNING_SHOWN));
}

// Blockers in words, and when the scheduler can say that it starts.
function queueTable(jobs, plans) {
  const ahead = (job) => plans.get(job.id)?.ahead ?? Infinity;
  const order = jobs.slice().sort((a, b) => ahead(a) - ahead(b) || Number(a.submitted_wall_ms) - Number(b.submitted_wall_ms));
  const start = (job, plan) => (plan?.starts ? "now" : plan?.makes_room ? "once others gave way" : Number(job.starts_wall_ms) ? h("span", {}, until(job.starts_wall_ms), " at the latest") : plan ? h("span", { class: "dim", title: "Those who run have no max_runtime" }, "unknown") : "…");
  return section("Queue", null, table([">Place", "Job", "Tenant", "Waits since", "Starts", "Why it waits"],
    order.slice(0, QUEUE_SHOWN).map((job, i) => {
      const plan = plans.get(job.id);
      return { key: job.id, cells: [i + 1, named(job), job.spec?.tenant, ago(job.submitted_wall_ms), start(job, plan),
        h("span", {}, job.reason?.text, job.reason?.hint && h("span", { class: "hint" }, ` → ${job.reason.hint}`))] };
    }), "Nobody waits.", "Queue"), left(order, QUEUE_SHOWN));
}

// What it wrote last is often all that one needs to know.
const lastLine = (output) => output?.trimEnd().split("\n").pop();
const endOf = (job) => h("span", { class: "why" }, job.reason?.text, job.reason?.output && h("div", { class: "dim" }, lastLine(job.reason.output)));

const endedTable = (jobs) => section("Ended last", null, table(["Job", "State", "When", "Ran", "Cause"],
  jobs.map((job) => ({ key: job.id, cells: [named(job), state(job.state), ago(job.ended_wall_ms),
    Number(job.started_wall_ms) ? span(job.ended_wall_ms - job.started_wall_ms) : "–", endOf(job)] })), "Nothing has ended yet.", "Jobs that ended last"));

export function overview(root) {
  const place = h("div", { class: "overview" });
  root.replaceChildren(h("h1", { class: "unseen" }, "Overview"), place);
  markJobs(place);
  const plans = new Map();
  let past = [], tenants = [], at = 0;

  async function slow(active) {
    const queue = active.filter(waiting).slice(-QUEUE_SHOWN);
    const answers = await Promise.all(queue.map((job) => api.plan({ job: job.id }).catch(() => null)));
    plans.clear();
    queue.forEach((job, i) => answers[i] && plans.set(job.id, answers[i]));
    const all = await Promise.all(["succeeded", "failed", "cancelled"].map((word) => api.listJobs({ state: word, limit: ENDED_SHOWN })));
    past = all.flatMap((a) => a.jobs || []).sort((a, b) => Number(b.ended_wall_ms) - Number(a.ended_wall_ms)).slice(0, ENDED_SHOWN);
    tenants = (await api.listTenants()).tenants || [];
  }

  return {
    async refresh() {
      const [{ nodes = [] }, { jobs = [], next_cursor: more }] = await Promise.all([api.listNodes(), api.listJobs({ state: "active", limit: ACTIVE_MAX })]);
      const active = jobs.filter((job) => !ended(job.state));
      if (Date.now() - at >= SLOW_MS) {
        at = Date.now();
        await slow(active);
      }
      const slots = nodes.reduce((sum, n) => sum + (n.slots || 0), 0);
      show(place,
        h("div", { class: "figures", "data-key": "figures" }, figures(nodes, active, more)),
        section("Nodes", h("a", { href: "#/nodes" }, "all about them"),
          h("div", { class: "tiles" }, tiles(nodes.slice(0, TILES_MAX))),
          nodes.length === 0 && h("p", { class: "empty" }, "No nodes. On a machine: muster agent --coordinator URL --token-file FILE"),
          nodes.length > TILES_MAX && h("p", { class: "dim" }, `and ${plural(nodes.length - TILES_MAX, "node")} more`)),
        runningTable(active.filter((job) => !waiting(job))),
        queueTable(active.filter(waiting), plans),
        section("Shares", h("a", { href: "#/tenants" }, "all about tenants"), h("div", { class: "shares" }, tenants.map((tenant) => shareBar(tenant, slots)))),
        endedTable(past));
    },
  };
}
