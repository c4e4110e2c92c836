// A job's life over time: a band for each state, generations with their size, and marks for what
// happened in between. One stop for the keyboard: arrows go from band to band, and a line below
// says what is pointed at.

import { ended, h, show } from "./dom.js";
import { plural, span, timeText } from "./format.js";

const BANDS_MAX = 300, TICKS_MAX = 200, AXIS_MARKS = 5;
const FAILURES = new Set(["worker_failed", "worker_lost", "start_failed", "out_of_memory", "node_lost", "peers_lost", "join_timeout", "finish_timeout", "refused", "restart_budget", "crash_loop", "max_runtime"]);
const FELL = ["reforming", "restarting", "failed"]; // states such a reason leads to

// Events -> [{ state, from, to, generation, world, why }], oldest first. A generation that all have
// joined begins a band of its own, so one that grew while it trained is seen.
export function bands(events, job, now) {
  const found = [];
  for (const e of events) {
    const joined = e.kind === "generation" && ["all_joined", "all_started"].includes(e.reason?.kind);
    const still = { stalled: "stalled", stall_over: "running" }[e.kind];
    if (!e.to && !joined && !still) continue;
    const last = found.at(-1), at = Number(e.wall_ms);
    const state = e.to || still || (last?.state ?? "running");
    if (last) last.to = at;
    if (!ended(state)) found.push({ state, from: at, to: at, generation: Number(e.generation), world: e.world || 0, why: e.reason?.text });
  }
  if (found.length) found.at(-1).to = Number(job.ended_wall_ms) || now;
  return found.filter((b) => b.to > b.from).slice(-BANDS_MAX);
}

// The first band of each generation in which it ran.
export const begun = (bands) => bands.filter((b) => b.state === "running").filter((b, i, all) => b.generation !== all[i - 1]?.generation);

// What is drawn over the bands: checkpoints as ticks, failures as signs.
export function marks(events) {
  const ticks = events.filter((e) => e.kind === "checkpoint");
  const every = Math.ceil(ticks.length / TICKS_MAX) || 1;
  const lost = events.filter((e) => FELL.includes(e.to) && FAILURES.has(e.reason?.kind));
  return [...ticks.filter((_, i) => i % every === 0).map((e) => ({ kind: "tick", at: Number(e.wall_ms), text: `checkpoint: ${e.reason?.text}` })),
    ...lost.slice(-TICKS_MAX).map((e) => ({ kind: "loss", at: Number(e.wall_ms), text: e.reason?.text }))];
}

const isRunning = (band) => band.state === "running" || band.state === "stalled";
const label = (band) => (isRunning(band) ? `${band.generation}` : "");

function sentence(band) {
  const size = isRunning(band) && band.world ? `, generation ${band.generation} of ${plural(band.world, "worker")}` : "";
  return `${band.state}${size}, ${timeText(band.from)}, for ${span(band.to - band.from)}${band.why ? `: ${band.why}` : ""}`;
}

export class Timeline {
  constructor() {
    this.track = h("div", { class: "track", tabindex: "0", role: "group", "aria-label": "Timeline; arrow keys go from band to band" });
    this.readout = h("p", { class: "readout dim", "aria-live": "polite" });
    this.axis = h("div", { class: "axis", "aria-hidden": "true" });
    this.element = h("div", { class: "timeline", "data-keep": true }, this.track, this.axis, this.readout);
    this.chosen = null;
    this.bands = [];
    this.track.addEventListener("mouseover", (event) => this.point(event.target.closest("[data-text]")));
    this.track.addEventListener("mouseleave", () => this.point(null));
    this.track.addEventListener("keydown", (event) => this.move(event));
    this.track.addEventListener("blur", () => this.choose(null));
  }

  point(part) {
    this.readout.textContent = part ? part.dataset.text : this.rest();
  }

  rest() {
    const band = this.bands[this.chosen ?? this.bands.length - 1];
    return band ? sentence(band) : "";
  }

  move(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !this.bands.length) return;
    event.preventDefault();
    this.choose(Math.min(this.bands.length - 1, Math.max(0, (this.chosen ?? this.bands.length) + by)));
  }

  choose(index) {
    this.chosen = index;
    [...this.track.querySelectorAll(".band")].forEach((band, i) => band.classList.toggle("chosen", i === index));
    this.readout.textContent = this.rest();
  }

  draw(events, job) {
    const now = Date.now();
    this.bands = bands(events, job, now);
    const from = Number(job.submitted_wall_ms), to = Math.max(Number(job.ended_wall_ms) || now, from + 1);
    const at = (ms) => `${(100 * (Math.max(from, ms) - from)) / (to - from)}%`;
    const width = (band) => `${(100 * (band.to - Math.max(from, band.from))) / (to - from)}%`;
    const tall = Math.max(1, ...this.bands.map((b) => (isRunning(b) ? b.world : 0)));
    show(this.track,
      this.bands.map((band, i) => h("span", {
        class: `band ${band.state}${i === this.chosen ? " chosen" : ""}`, "data-key": `${band.from}${band.state}${band.generation}`, "data-text": sentence(band),
        style: `left: ${at(band.from)}; width: ${width(band)}; height: ${isRunning(band) ? 35 + (65 * (band.world || tall)) / tall : 35}%`,
      }, h("span", {}, label(band)))),
      marks(events).map((mark) => h("span", { class: mark.kind, "data-key": `${mark.kind}${mark.at}${mark.text}`, "data-text": `${timeText(mark.at)}, ${mark.text}`, style: `left: clamp(.4rem, ${at(mark.at)}, 100% - .4rem)` }, mark.kind === "loss" && "✕")));
    show(this.axis, Array.from({ length: AXIS_MARKS }, (_, i) => h("span", {}, i === 0 ? timeText(from) : i + 1 < AXIS_MARKS ? `+${span(((to - from) * i) / (AXIS_MARKS - 1))}` : timeText(to))));
    if (!this.track.matches(":hover")) this.readout.textContent = this.rest();
  }
}
