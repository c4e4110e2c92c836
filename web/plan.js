// What if: questions to the scheduler. Nothing is changed by asking.

import * as api from "./api.js";
import { h, time } from "./dom.js";

const words = {
  starts: () => "would start",
  shrinks: (e) => `would go on without ${e.node}`,
  moves: (e) => `would move away from ${e.node}`,
  restarts: () => "would start again from its checkpoint",
  waits: () => "would end and wait in the queue",
};

// A sentence for each job that would notice.
export const effects = (answer) => (answer.effects || []).map((e) => `${e.name}${e.job ? ` (${e.job})` : ""} ${(words[e.effect] || (() => e.effect))(e)}`);

function shown(answer) {
  const lines = [answer.summary];
  if (answer.starts) lines.push(`On ${answer.nodes.join(", ")}.`);
  else if (Number(answer.starts_wall_ms)) lines.push(`By ${time(answer.starts_wall_ms)} at the latest.`);
  return [...lines, ...effects(answer)].map((line) => h("p", {}, line));
}

// For a job that waits: with another number of nodes, would it start?
export function whatIf(id) {
  const min = h("input", { type: "number", min: "1", max: "10000", value: "1", "aria-label": "Least nodes" });
  const result = h("div", { class: "answer", role: "status", "aria-live": "polite" });
  return h("form", { class: "whatif", onsubmit: async (event) => {
    event.preventDefault();
    try {
      result.replaceChildren(...shown(await api.plan({ job: id, nodes: { min: Number(min.value), max: Number(min.value) } })));
    } catch (error) {
      result.replaceChildren(h("p", { class: "error" }, error.message));
    }
  } }, h("label", {}, "What if it asked for ", min, " nodes? "), h("button", { class: "quiet" }, "Ask"), result);
}

// Before a drain: who would notice, as text for a question.
export async function drainWarning(name) {
  const noticed = effects(await api.plan({ drain: [name] }));
  return noticed.length ? `Drain ${name}?\n${noticed.join("\n")}` : `Drain ${name}? No job runs there.`;
}
