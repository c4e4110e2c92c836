// The cluster at a glance: what needs somebody, what is busy and with what, who waits and why, who
// holds how much, and what has finished. The coordinator counts: no list here is the whole.

import * as api from "./api.js";
import { h, jobColour, jobLink, jobState, section, show, state, table } from "./dom.js";
import { ago, count, loss, plural, rate, span, step, until } from "./format.js";
import { colourNodes, markJobs, tiles } from "./tiles.js";
import { who } from "./session.js";
import { shareBar } from "./shares.js";

const ENDED_SHOWN = 8, TILES_MAX = 120, TILES_FIRST = 24, LIST_MAX = 20, ATTENTION_MAX = 5;
const SLOW_MS = 1500; // tenants are asked for no more often

function figure(number, unit, text) {
  return h("div", { class: "figure", "data-key": unit.replace(/s? /, " ") }, h("strong", {}, number), h("span", {}, unit), h("small", {}, text));
}

function figures({ jobs, nodes, slots, slots_used, tokens_per_second, waiting_since_wall_ms }) {
  const others = Object.entries(nodes).filter(([word, n]) => n && word !== "ready" && word !== "all");
  const hold = jobs.active - jobs.waiting;
  const speed = [jobs.stalled > 0 && `${jobs.stalled} stalled`, tokens_per_second > 0 ? `${count(tokens_per_second)} tokens/s together` : "no throughput reported"].filter(Boolean).join(", ");
  return [
    figure(`${count(slots_used)} / ${count(slots)}`, "slots in use", `${count(Math.max(0, slots - slots_used))} free`),
    figure(count(nodes.ready), nodes.ready === 1 ? "node ready" : "nodes ready", others.map(([word, n]) => `${n} ${word}`).join(", ") || "none missing"),
    figure(count(hold), "running", speed),
    figure(count(jobs.waiting), "waiting", jobs.waiting ? `the first for ${span(Date.now() - Number(waiting_since_wall_ms))}` : "no job waits"),
  ];
}

// What somebody should look at, worst first. Nothing where all is well.
function attention({ jobs, running = [], changes_refused }, nodes) {
  const still = running.filter((job) => Number(job.stalled_wall_ms));
  const gone = nodes.filter((n) => ["lost", "unreachable"].includes(n.state));
  const lines = [
    changes_refused && h("li", { "data-key": "refused" }, `${changes_refused}. Workers train on; no job starts, and no change is accepted.`),
    ...still.slice(0, ATTENTION_MAX).map((job) => h("li", { "data-key": job.id }, jobState(job), " ", jobLink(job.id, job.spec?.name), ` for ${span(Date.now() - Number(job.stalled_wall_ms))}: ${job.reason?.text || ""}`)),
    jobs.stalled > ATTENTION_MAX && h("li", { "data-key": "more" }, h("a", { href: "#/jobs?state=stalled" }, `and ${jobs.stalled - ATTENTION_MAX} more that are stalled`)),
    ...gone.slice(0, ATTENTION_MAX).map((n) => h("li", { "data-key": `node ${n.name}` }, state(n.state), " ", h("a", { href: `#/nodes/${encodeURIComponent(n.name)}` }, n.name), `: ${n.reason?.text || ""}`)),
    gone.length > ATTENTION_MAX && h("li", { "data-key": "nodes" }, h("a", { href: "#/nodes" }, `and ${plural(gone.length - ATTENTION_MAX, "node")} more`)),
  ].filter(Boolean);
  return lines.length > 0 && h("section", { class: "cause warn attention", "data-key": "attention", "aria-label": "Needs attention" }, h("h2", {}, "Needs attention"), h("ul", {}, lines));
}

const progress = (job) => (Number(job.total_steps) ? h("progress", { max: "1", value: Number(job.step || 0) / Number(job.total_steps), "aria-label": `Progress of ${job.spec?.name}` }) : "");
const named = (job, colour) => h("span", { class: "named" }, colour && h("span", { class: `swatch ${colour}` }), jobLink(job.id, job.spec?.name), h("span", { class: "dim" }, job.id));
const left = (all, shown, word) => all > shown && h("p", { class: "dim" }, `and ${count(all - shown)} more, under `, h("a", { href: `#/jobs?state=${word}` }, "Jobs"));

const runningTable = (jobs, all) => section("Running", null, table(["Job", "State", ">Workers", ">Step", "Progress", ">Loss", ">Tokens/s"],
  jobs.map((job) => ({ key: job.id, cells: [named(job, jobColour(job.id)), jobState(job), job.world || 0, step(job), progress(job), loss(job.loss), rate(job)] })),
  who().tenant ? `No job of ${who().tenant} is running.` : "No job is running.", "Running jobs"), left(all, jobs.length, "active"));

// In the scheduler's order; a place counts jobs, too, that the reader may not see.
const queueTable = (queue, all) => section("Queue", null, table([">Place", "Job", "Tenant", "Waits since", "Starts", "Why it waits"],
  queue.map(({ place, job }) => ({ key: job.id, cells: [count(place), named(job), h("span", { class: "clip", title: job.spec?.tenant }, job.spec?.tenant), ago(job.submitted_wall_ms),
    Number(job.starts_wall_ms) ? h("span", {}, until(job.starts_wall_ms), " at the latest") : h("span", { class: "dim", title: "Some running jobs have no max_runtime" }, "unknown"),
    h("span", { class: "why brief" }, job.reason?.text, job.reason?.hint && h("span", { class: "hint" }, ` → ${job.reason.hint}`))] })), "No job waits.", "Queue"), left(all, queue.length, "queued"));

// What it wrote last is often all that one needs to know.
const lastLine = (output) => output?.trimEnd().split("\n").pop();
const endOf = (job) => h("span", { class: "why" }, job.reason?.text, job.reason?.output && h("div", { class: "dim" }, lastLine(job.reason.output)));

const endedTable = (jobs) => section("Recently finished", h("a", { href: "#/jobs?state=failed" }, "all that failed"), table(["Job", "State", "When", "Ran", "Cause"],
  jobs.map((job) => ({ key: job.id, cells: [named(job), state(job.state), ago(job.ended_wall_ms),
    Number(job.started_wall_ms) ? span(job.ended_wall_ms - job.started_wall_ms) : "–", endOf(job)] })), "No job has ended yet.", "Jobs that ended last"));

export function overview(root) {
  const place = h("div", { class: "overview" });
  root.replaceChildren(h("h1", { class: "unseen" }, "Overview"), place);
  markJobs(place);
  let tenants = [], at = 0;

  return {
    async refresh() {
      const [now, nodes] = await Promise.all([api.overview(LIST_MAX), api.currentNodes()]);
      if (Date.now() - at >= SLOW_MS) {
        at = Date.now();
        tenants = (await api.listTenants()).tenants || [];
      }
      const running = now.running || [], queue = now.queue || [];
      const slots = nodes.reduce((sum, n) => sum + (n.slots || 0), 0);
      colourNodes(nodes);
      const busy = section("Nodes", h("a", { href: "#/nodes" }, "all nodes"),
        h("div", { class: "tiles" }, tiles(nodes.slice(0, TILES_MAX))),
        nodes.length === 0 && h("p", { class: "empty" }, "No nodes. On a machine: muster agent --coordinator URL --token-file FILE"),
        nodes.length > TILES_MAX && h("p", { class: "dim" }, `and ${plural(nodes.length - TILES_MAX, "node")} more`));
      const few = nodes.length <= TILES_FIRST; // many tiles would push the jobs out of sight
      show(place,
        h("div", { class: "figures", "data-key": "figures" }, figures(now)),
        attention(now, nodes),
        few && busy,
        runningTable(running, now.jobs.active - now.jobs.waiting),
        queueTable(queue, now.jobs.waiting),
        !few && busy,
        section("Shares", h("a", { href: "#/tenants" }, "all tenants"), h("div", { class: "shares" }, tenants.map((tenant) => shareBar(tenant, slots)))),
        endedTable((now.ended || []).slice(0, ENDED_SHOWN)));
    },
  };
}
