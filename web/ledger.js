// Where the seconds of a job went, as one bar and its legend. The parts sum to the whole.

import { h } from "./dom.js";
import { percent, plural, span } from "./format.js";

const PARTS = [
  ["productive", "trained, steps it had not done before"],
  ["checkpoint", "stood still to save"],
  ["rework", "did steps again that a failure lost"],
  ["recovery", "from a failure to the next step"],
  ["hang", "completed no step for far too long"],
  ["start", "started its workers"],
  ["queue", "waited for a place"],
];
const present = (ledger) => PARTS.map(([name, words]) => ({ name, words, s: Number(ledger[name] || 0) })).filter((p) => p.s > 0);

export function ledgerBar(ledger) {
  if (!ledger || !(Number(ledger.total) > 0)) return null;
  const parts = present(ledger);
  const text = parts.map((p) => `${p.name} ${percent(p.s, ledger.total)}`).join(", ");
  return h("div", { class: "ledger", role: "img", "aria-label": text },
    parts.map((p) => h("span", { class: `part ${p.name}`, "data-key": p.name, style: `flex-grow: ${p.s / ledger.total}`, title: `${p.name}: ${span(p.s * 1000)}, ${percent(p.s, ledger.total)}` })));
}

export function ledgerLegend(ledger) {
  if (!ledger) return null;
  const again = Number(ledger.rework_steps || 0);
  return h("ul", { class: "parts" }, present(ledger).map((p) => h("li", { "data-key": p.name },
    h("span", { class: `swatch ${p.name}` }), h("b", {}, p.name), h("span", { class: "number" }, span(p.s * 1000)), h("span", { class: "number dim" }, percent(p.s, ledger.total)),
    h("span", { class: "dim" }, p.words + (p.name === "rework" && again ? `, ${plural(again, "step")}` : "")))));
}

export const ledgerLine = (ledger) => Number(ledger?.total) > 0 && h("p", { class: "dim small" }, `${percent(ledger.productive, ledger.total)} productive of ${span(ledger.total * 1000)} of its jobs`);
