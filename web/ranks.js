// The workers of a job: where they are, how far, and for whom they wait.

import { h, state, table } from "./dom.js";
import { count, counted, span } from "./format.js";

const SHOWN_MAX = 256, LONG = 32; // more rows than that scroll by themselves, so that what is below is found

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

export function ranksTable(workers) {
  const gone = (w) => w.state === "exited";
  const best = Math.max(0, ...workers.map((w) => Number(w.step || 0)));
  const late = awaited(workers);
  const isAwaited = (w) => !gone(w) && late.has(w.rank || 0);
  const sorted = workers.slice().sort((a, b) => isAwaited(b) - isAwaited(a) || gone(a) - gone(b) || (a.rank || 0) - (b.rank || 0));
  const rows = sorted.slice(0, SHOWN_MAX).map((w) => {
    const behind = gone(w) ? 0 : best - Number(w.step || 0), isLate = isAwaited(w);
    return { key: w.uid, class: isLate ? "late" : undefined, cells: [
      w.rank || 0, w.node, state(w.state), Number(w.pid) || "–", counted(w.step), behind ? count(behind) : "",
      isLate ? h("b", {}, "others wait for it") : waits(w)] };
  });
  const shown = table([">Rank", "Node", "State", ">Process", ">Step", ">Behind", "What it does"], rows, "No workers now.", "Ranks");
  return [rows.length > LONG ? h("div", { class: "long", "data-key": "ranks", tabindex: "0", role: "region", "aria-label": "Ranks" }, shown) : shown,
    workers.length > SHOWN_MAX && h("p", { class: "dim" }, `and ${workers.length - SHOWN_MAX} more; muster show lists all ranks.`)];
}
