// One job: where it is, its life over time, its loss as it falls, what its workers print, and what
// happened to it.

import * as api from "./api.js";
import { cause, needsWhy } from "./cause.js";
import { Curves } from "./curves.js";
import { GpuCurves } from "./gpu_curves.js";
import { ask, field, input } from "./dialog.js";
import { ended, h, jobLink, jobState, section, show, state, table, waiting } from "./dom.js";
import { ago, bytes, count, loss, plural, rate, span, step, time } from "./format.js";
import { ledgerBar, ledgerLegend } from "./ledger.js";
import { Logs } from "./logs.js";
import { askWhatIf } from "./plan.js";
import { ranksNote, ranksTable } from "./ranks.js";
import { mayChangeJobs } from "./session.js";
import { bands, begun, Timeline } from "./timeline.js";

const EVENTS_PAGE = 1000, EVENTS_KEPT = 3000, EVENTS_SHOWN = 100, CHECKPOINTS_SHOWN = 50;
const WHY_MS = 3000;

function facts(job, perSecond) {
  const steps = Number(job.total_steps) - Number(job.step || 0);
  const left = !needsWhy(job) && !ended(job.state) && steps > 0 && perSecond > 0 ? `, ${span((steps / perSecond) * 1000)} left` : "";
  const end = Number(job.ended_wall_ms) || Date.now();
  const begun = Number(job.generation) > 0, told = Number(job.step) > 0;
  const rows = [
    ...(told ? [["Step", step(job) + left], ["Loss", loss(job.loss)], ["Tokens/s", rate(job)]] : []),
    ...(begun ? [["World", `${plural(job.world || 0, "worker")}, generation ${job.generation}`]] : []),
    ...(Number(job.preempted_wall_ms) ? [["Gave way", job.preempted_by ? [ago(job.preempted_wall_ms), " to ", jobLink(job.preempted_by)] : ago(job.preempted_wall_ms)]] : []),
    ...(begun ? [["Recoveries", `${job.recoveries || 0}${Number(job.last_recovery_ms) ? `, the last in ${span(job.last_recovery_ms)}` : ""}`]] : []),
    ["Restarts", job.restarts || 0], ...(job.spec?.nodes?.spares ? [["Spare nodes", `${(job.spares || []).join(", ") || "none"}, of ${job.spec.nodes.spares}`]] : []),
    ["Tenant, priority", `${job.spec?.tenant}, ${job.spec?.priority}`],
    ["Submitted", ago(job.submitted_wall_ms)],
    ...(job.warnings || []).map((text) => ["Warning", text]),
    ...(Number(job.started_wall_ms) ? [[ended(job.state) ? "Ran for" : "Since it began", end - job.started_wall_ms >= 1 ? span(end - job.started_wall_ms) : "ended while it was starting"]] : []),
  ];
  return h("dl", { class: "facts", "data-key": "facts" }, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// The command as a shell would take it, and the whole spec behind a fold.
const command = (job) => section("Command", null, h("pre", { class: "command" }, (job.spec?.command || []).map(quote).join(" ")),
  h("details", {}, h("summary", {}, "The whole spec"), h("pre", {}, JSON.stringify(job.spec, null, 2))));

const ledger = (job) => job.ledger && section("Where the time went",
  h("span", { class: "dim" }, `${span(job.ledger.total * 1000)} since it was submitted`), ledgerBar(job.ledger), ledgerLegend(job.ledger));

function checkpointsTable(checkpoints) {
  const newest = checkpoints.slice(-CHECKPOINTS_SHOWN).reverse();
  return section("Checkpoints", null, table([">Step", "Saved", ">Size", ">Workers", ">Generation", "Where"],
    newest.map((c) => ({ key: c.path, cells: [count(c.step), ago(c.wall_ms), bytes(c.size_bytes), c.world || "–", c.generation || "–", h("code", {}, c.path)] })), "None yet.", "Checkpoints"));
}

// What people have open beside its workers; nothing while there is none.
const channelsTable = (channels) => channels.length > 0 && section("Open beside its workers", null, table([">Rank", "Node", "What", "By", "Since"],
  channels.map((c) => ({ key: c.id, cells: [c.rank || 0, c.node, c.what, c.user || "–", ago(c.opened_wall_ms)] })), "", "Terminals, programs and connections"));

// Checkpoints have a table of their own and would drown the rest.
function history(all) {
  const events = all.filter((e) => e.kind !== "checkpoint");
  const newest = events.slice(-EVENTS_SHOWN).reverse();
  return section("Events", events.length > EVENTS_SHOWN && h("span", { class: "dim" }, `the last ${EVENTS_SHOWN}; muster events has all`),
    h("ol", { class: "events", tabindex: "0", "aria-label": "Events of this job" }, newest.map((e) => h("li", { "data-key": e.seq },
      h("span", { class: "dim" }, time(e.wall_ms)), h("span", { class: "what" }, e.to ? state(e.to) : e.kind === "stalled" ? state(e.kind) : e.kind.replaceAll("_", " ")),
      h("span", {}, e.reason?.text, Number(e.generation) > 0 && h("span", { class: "dim" }, ` (generation ${e.generation})`))))));
}

function askCancel(job) {
  const saved = job.last_checkpoint;
  const began = Number(job.started_wall_ms) > 0 || job.state !== "queued";
  const after = saved ? `A new job can continue from its checkpoint of step ${count(saved.step)}: training.resume_from names the folder ${saved.path.replace(/\/[^/]*$/, "")}.`
    : job.spec?.checkpoint?.dir ? "A new job can continue from the checkpoint that they save before they end, if they save one." : "It has no checkpoint: its work is lost.";
  ask({ title: `Cancel ${job.spec?.name}?`, yes: "Cancel the job", danger: true, body: [h("p", {}, began ? ["Its workers are stopped and this job ends. ", after] : "It has not begun: no work is lost.")], act: () => api.cancelJob(job.id).then(() => null) });
}

function askScale(job) {
  const range = job.spec?.nodes || {};
  const number = (name, value) => input(name, { type: "number", min: "1", required: true, value: String(value) });
  ask({
    title: `Scale ${job.spec?.name}`, yes: "Scale",
    body: [field("Nodes, at least", number("min", range.min || 1)), field("Nodes, at most", number("max", range.max || range.min || 1), "it grows when one is free and shrinks when one is lost")],
    act: (form) => api.scaleJob(job.id, Number(form.min), Number(form.max)).then(() => null),
  });
}

function actions(job) {
  const whatIf = h("button", { class: "quiet", "data-key": "what", onclick: async () => askWhatIf(job, await api.currentNodes()) }, "What if …");
  const changes = mayChangeJobs() && !ended(job.state) && [
    h("button", { class: "quiet", "data-key": "scale", onclick: () => askScale(job) }, "Scale"),
    h("button", { class: "quiet", "data-key": "cancel", onclick: () => askCancel(job) }, "Cancel job")];
  return [whatIf, changes];
}

// The job's events, asked for once each.
class History {
  constructor() {
    this.after = 0;
    this.events = [];
  }
  async refresh(id) {
    const answer = await api.listJobEvents(id, { after: this.after, limit: EVENTS_PAGE, newest: this.after ? "" : "true" });
    this.after = answer.next || this.after;
    this.events = this.events.concat(answer.events || []).slice(-EVENTS_KEPT);
  }
}

// What only some states need, and no more often than it changes.
class Why {
  constructor() {
    this.at = 0;
    this.answer = this.plan = null;
  }
  async refresh(job) {
    const key = `${job.id} ${job.state} ${job.reason?.kind}`;
    if (!needsWhy(job)) {
      this.answer = this.plan = null;
      return;
    }
    if (this.key === key && Date.now() - this.at < WHY_MS) return;
    this.key = key;
    this.at = Date.now();
    this.answer = await api.getWhy(job.id);
    this.plan = waiting(job) ? await api.plan({ job: job.id }).catch(() => null) : null;
  }
}

export function jobView(root, id) {
  const head = h("div", { class: "job-head" }), top = h("div"), below = h("div");
  const timeline = new Timeline(), curves = new Curves(), gpus = new GpuCurves(), logs = new Logs(), past = new History(), why = new Why();
  let was = null, over = false;
  root.replaceChildren(head, top,
    section("Timeline", h("span", { class: "dim legend-line" }, "height is the number of workers, ", h("span", { class: "tick-sign" }), " a checkpoint, ", h("span", { class: "error" }, "✕"), " a failure"), timeline.element),
    section("Loss", curves.tools, curves.element), gpus.element, section("Output", logs.tools, logs.list), below);
  return {
    stream: () => api.jobPath(id),
    isOver: () => over && logs.atEnd, // nothing of it will change
    async refresh() {
      const job = await api.getJob(id);
      const { checkpoints = [] } = await api.getCheckpoints(job.id);
      const figures = await api.getRanks(job.id);
      const { channels = [] } = ended(job.state) ? {} : await api.listChannels(job.id);
      await Promise.all([past.refresh(job.id), why.refresh(job)]);
      const generations = begun(bands(past.events, job, Date.now()));
      over = ended(job.state) && was?.version === job.version;
      was = job;
      document.title = `${job.spec?.name}: ${Number(job.stalled_wall_ms) ? "stalled" : job.state} · Muster`;
      show(head, h("p", { class: "dim", "data-key": "path" }, h("a", { href: "#/jobs" }, "Jobs"), ` / ${job.id}`),
        h("div", { class: "heading", "data-key": "title" }, h("h1", {}, h("span", {}, job.spec?.name || job.id), " ", jobState(job)), h("span", { class: "toggles" }, actions(job))),
        !needsWhy(job) && h("p", { class: "reason", "data-key": "reason" }, job.reason?.text, job.reason?.hint && h("span", { class: "hint" }, ` → ${job.reason.hint}`)));
      show(top, cause(job, why.answer, why.plan, (rank) => logs.only(rank)),
        Number(job.total_steps) > 0 && h("progress", { "data-key": "bar", max: "1", value: Number(job.step || 0) / Number(job.total_steps), "aria-label": "Progress" }),
        facts(job, curves.speed()));
      timeline.draw(past.events, job);
      logs.button.hidden = ended(job.state);
      logs.stacks.hidden = !mayChangeJobs() || ended(job.state) || !job.workers?.some((worker) => Number(worker.pid));
      logs.say(ended(job.state) ? "It wrote nothing." : Number(job.generation) > 0 ? "No output yet." : "It has not begun.");
      curves.say(ended(job.state) ? "This job reported no loss." : Number(job.generation) > 0 ? "This job has reported no loss yet." : "It has not begun.");
      logs.ranks(job.world || (job.workers || []).length);
      show(below, ledger(job), section("Ranks", ranksNote(figures), ranksTable(job.workers || [], figures)), channelsTable(channels), checkpointsTable(checkpoints), command(job), history(past.events));
      await Promise.all([curves.refresh(job.id, generations), gpus.refresh(job.id), logs.refresh(job.id)]);
    },
    close() {
      curves.close();
      gpus.close();
      document.title = "Muster";
    },
  };
}
