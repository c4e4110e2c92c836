// Why a job is where it is: what went wrong with the evidence, for whom a gang waits, what keeps a
// job in the queue. Nothing where nothing is wrong.

import { h, waiting } from "./dom.js";
import { span, until } from "./format.js";

// Where its last lines stand below, nobody is sent to look for them.
const reasonLine = (reason, told) => h("li", {}, reason.text, reason.hint && !(told && reason.hint.includes("muster logs")) && h("div", { class: "hint" }, `→ ${reason.hint}`));

// The last words of the rank that is blamed, else of the first that failed.
function evidence(job, reasons) {
  const rank = reasons.find((r) => r.rank >= 0)?.rank;
  const failed = (job.workers || []).filter((w) => w.exit && (w.exit.code || w.exit.signal || w.exit.oom || w.exit.lost));
  const worker = failed.find((w) => (w.rank || 0) === rank) || failed[0];
  return worker && { rank: worker.rank || 0, node: worker.node, exit: worker.exit };
}

function failure(job, why, openRank) {
  const reasons = why.reasons || [job.reason];
  const found = evidence(job, reasons);
  const output = reasons.find((reason) => reason?.output)?.output || found?.exit.last_output;
  return h("section", { class: "cause bad", "data-key": "cause", "aria-label": "Cause of failure" },
    h("h2", {}, "Why it failed"),
    h("ul", {}, reasons.map((reason) => reasonLine(reason, Boolean(output)))),
    output && h("pre", { "aria-label": "Its last lines" }, output),
    found && h("p", {}, h("button", { class: "quiet", onclick: () => openRank(found.rank) }, `All that rank ${found.rank} wrote`),
      !reasons.some((reason) => reason.text?.includes(found.exit.text)) && ` It ended on ${found.node}: ${found.exit.text}.`));
}

const standing = (job, why) => h("section", { class: "cause warn", "data-key": "cause", "aria-label": "Why it is stalled" },
  h("h2", {}, Number(job.stalled_wall_ms) ? `Stalled for ${span(Date.now() - Number(job.stalled_wall_ms))}` : "Waits in a collective"), h("ul", {}, (why.reasons || [job.reason]).map((reason) => reasonLine(reason))));

function queued(why, plan) {
  const when = plan && (plan.makes_room ? "It starts once others have made room." : Number(plan.starts_wall_ms) ? ["It starts ", until(plan.starts_wall_ms), " at the latest."] : "No estimate: some running jobs have no max_runtime.");
  return h("section", { class: "cause", "data-key": "cause", "aria-label": "Why it waits" },
    h("h2", {}, "Why it waits"), h("ul", {}, (why.reasons || []).map((reason) => reasonLine(reason))),
    plan && h("p", {}, plan.ahead ? `${plan.ahead} before it in the queue. ` : "It is the first of the queue. ", when));
}

export const needsWhy = (job) => job.state === "failed" || waiting(job) || job.reason?.kind === "stalled" || Number(job.stalled_wall_ms) > 0;

export function cause(job, why, plan, openRank) {
  if (!why) return null;
  if (job.state === "failed") return failure(job, why, openRank);
  return waiting(job) ? queued(why, plan) : standing(job, why);
}
