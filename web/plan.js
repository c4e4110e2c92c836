// What if: the scheduler's answer to a question, in words. Asking changes nothing.

import { ask, field, input, STAY } from "./dialog.js";
import * as api from "./api.js";
import { h, waiting } from "./dom.js";
import { until } from "./format.js";

const EFFECTS = { starts: "starts", shrinks: "goes on with fewer nodes", moves: "moves to other nodes", restarts: "starts again from its checkpoint", waits: "waits for a place" };

// Nodes that show a PlanAnswer.
export function answerOf(plan) {
  const effects = plan.effects || [], reasons = plan.reasons || [];
  return [
    h("p", { class: "answer" }, plan.summary),
    plan.nodes?.length > 0 && h("p", {}, `On ${plan.nodes.join(", ")}.`),
    !plan.starts && Number(plan.starts_wall_ms) > 0 && h("p", {}, "It starts ", until(plan.starts_wall_ms), " at the latest, if those who run keep to their time."),
    reasons.length > 0 && h("ul", {}, reasons.map((r) => h("li", {}, r.text, r.hint && h("span", { class: "hint" }, ` → ${r.hint}`)))),
    effects.length > 0 && h("ul", {}, effects.map((e) => h("li", {}, h("b", {}, e.name || "another tenant's job"), ` ${EFFECTS[e.effect] || e.effect}${e.node ? ` (${e.node})` : ""}${e.gives_way ? ", to make room" : ""}`))),
    plan.effects_left_out > 0 && h("p", {}, `And ${plan.effects_left_out} more that are not named here.`),
  ].filter(Boolean);
}

// A job that waits is asked about itself; of another, what would become of one like it.
export function askWhatIf(job, nodes) {
  const waits = waiting(job);
  const range = job.spec?.nodes || {};
  const number = (name, value) => input(name, { type: "number", min: "1", value: String(value) });
  const names = [h("option", { value: "" }, "none"), ...nodes.map((n) => h("option", { value: n.name }, n.name))];
  const result = h("div", { class: "result", "aria-live": "polite" });
  ask({
    title: "What if", yes: "Ask",
    body: [
      h("p", { class: "dim" }, waits ? "When and where it would start, if things were otherwise. Nothing is changed." : "What would become of another job like this one. Nothing is changed."),
      field("Nodes, at least", number("min", range.min || 1)), field("Nodes, at most", number("max", range.max || range.min || 1)),
      field("Without this node", h("select", { name: "drain" }, names)),
      field("With more nodes like", h("select", { name: "like" }, names.map((n) => n.cloneNode(true)))),
      field("How many more", number("count", 1)), result,
    ],
    act: async (form) => {
      const question = waits ? { job: job.id } : { spec: job.spec };
      question.nodes = { min: Number(form.min), max: Math.max(Number(form.min), Number(form.max)) };
      if (form.drain) question.drain = [form.drain];
      if (form.like) question.add = [{ like: form.like, count: Number(form.count) }];
      result.replaceChildren(...answerOf(await api.plan(question)));
      return STAY;
    },
  });
}
