// All jobs, newest first, with the reason for every state.

import * as api from "./api.js";
import { age, count, h, loss, show, state, step, table, time } from "./dom.js";

// What keeps a job that waits, what would help, and when it starts at the latest.
function reason(job) {
  if (!["queued", "restarting"].includes(job.state)) return job.reason?.text;
  return h("span", {}, job.reason?.text || "",
    job.reason?.hint ? h("span", { class: "hint" }, ` → ${job.reason.hint}`) : null,
    Number(job.starts_wall_ms) ? h("span", { class: "estimate" }, ` starts by ${time(job.starts_wall_ms)} at the latest`) : null);
}

export function jobsView(root) {
  const body = h("div");
  const summary = h("p", { class: "summary" });
  root.replaceChildren(h("h1", {}, "Jobs"), summary, body);
  return {
    async refresh() {
      const { jobs = [] } = await api.listJobs();
      const byState = {};
      for (const job of jobs) byState[job.state] = (byState[job.state] || 0) + 1;
      summary.textContent = Object.entries(byState).map(([word, n]) => `${n} ${word}`).join(" · ");
      show(body, table(
        ["Job", "Name", "State", ">World", ">Step", ">Loss", ">Tokens/s", ">Age", "Reason"],
        jobs.map((job) => [
          h("a", { href: `#/jobs/${encodeURIComponent(job.id)}` }, job.id),
          h("a", { href: `#/jobs/${encodeURIComponent(job.id)}` }, job.spec?.name || job.id), state(job.state), job.world || 0, step(job), loss(job.loss),
          Number(job.tokens_per_second) > 0 ? count(job.tokens_per_second) : "–",
          age(job.submitted_wall_ms), reason(job),
        ]),
        "No jobs yet. In a terminal: muster run -- COMMAND"));
    },
  };
}
