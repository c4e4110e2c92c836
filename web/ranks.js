// The workers of a job: where they are, how far, how fast, what they say, and for whom they wait.

import { h, state, table } from "./dom.js";
import { count, counted, loss, span } from "./format.js";

const SHOWN_MAX = 256, LONG = 32; // more rows than that scroll by themselves, so that what is below is found
const NUMBERS_SHOWN = 4; // of a rank, beside its loss

function waits(worker) {
  const wait = worker.wait;
  if (!wait) return worker.exit?.text || "";
  const names = (wait.ranks || []).join(", ") + (wait.ranks_count > (wait.ranks || []).length ? ", …" : "");
  return `waits ${span(wait.waited_ms)} in ${wait.operation} of ${wait.communicator}${names ? ` for rank ${names}` : ""}`;
}

// Ranks others wait for, as the waiting ones tell.
function awaited(workers) {
  return new Set(workers.flatMap((w) => w.wait?.ranks || []));
}

const plain = (value) => (typeof value === "number" ? String(Number(value.toPrecision(5))) : value); // else "NaN", "Infinity"

function numbers(rank) {
  const all = Object.entries(rank?.numbers || {}).filter(([name]) => name !== "loss");
  const more = all.length - NUMBERS_SHOWN;
  return all.slice(0, NUMBERS_SHOWN).map(([name, value]) => `${name} ${plain(value)}`).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

// Its share of a step: without waiting where all ranks know that, else the whole step.
function pace(rank, byWork) {
  const ms = byWork ? rank?.work_ms : rank?.step_ms;
  return ms === null || ms === undefined ? "–" : span(ms);
}

function ratio(rank, slowest) {
  if (rank?.ratio === null || rank?.ratio === undefined) return "–";
  const text = rank.ratio.toFixed(2);
  return slowest ? h("b", {}, `${text}, slowest`) : text;
}

// Beside the heading: which rank is slow, or what is compared.
export function ranksNote(figures) {
  if (figures.slowest) return h("span", {}, figures.slowest.text);
  if (!figures.median_ms) return null;
  return h("span", { class: "dim" }, `the median rank ${figures.by_work ? "works" : "needs"} ${span(figures.median_ms)} ${figures.by_work ? "in each step without waiting" : "for a step"}`);
}

// `figures` is the answer about ranks (/v1/jobs/ID/ranks); its columns are there once a rank has any.
export function ranksTable(workers, figures = {}) {
  const gone = (w) => w.state === "exited";
  const best = Math.max(0, ...workers.map((w) => Number(w.step || 0)));
  const late = awaited(workers);
  const isAwaited = (w) => !gone(w) && late.has(w.rank || 0);
  const told = new Map((figures.ranks || []).filter((r) => r.timed || Object.keys(r.numbers || {}).length).map((r) => [r.rank || 0, r]));
  const own = (w) => {
    const rank = told.get(w.rank || 0);
    return [pace(rank, figures.by_work), ratio(rank, figures.slowest && figures.slowest.rank === (w.rank || 0)), loss(rank?.numbers?.loss), numbers(rank)];
  };
  const sorted = workers.slice().sort((a, b) => isAwaited(b) - isAwaited(a) || gone(a) - gone(b) || (a.rank || 0) - (b.rank || 0));
  const rows = sorted.slice(0, SHOWN_MAX).map((w) => {
    const behind = gone(w) ? 0 : best - Number(w.step || 0), isLate = isAwaited(w);
    return { key: w.uid, class: isLate ? "late" : undefined, cells: [
      w.rank || 0, w.node, state(w.state), Number(w.pid) || "–", counted(w.step), behind ? count(behind) : "", ...(told.size ? own(w) : []),
      isLate ? h("b", {}, "others wait for it") : waits(w)] };
  });
  const figuresTitles = told.size ? [figures.by_work ? ">Work in a step" : ">Step time", ">To the median", ">Loss", "Numbers"] : [];
  const shown = table([">Rank", "Node", "State", ">Process", ">Step", ">Behind", ...figuresTitles, "What it does"], rows, "No workers now.", "Ranks");
  return [rows.length > LONG ? h("div", { class: "long", "data-key": "ranks", tabindex: "0", role: "region", "aria-label": "Ranks" }, shown) : shown,
    workers.length > SHOWN_MAX && h("p", { class: "dim" }, `and ${workers.length - SHOWN_MAX} more; muster show --ranks lists all.`)];
}
