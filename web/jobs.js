// All jobs, newest first, a page at a time, with the reason for every state.

import * as api from "./api.js";
import { h, jobLink, show, state, table, waiting } from "./dom.js";
import { ago, loss, rate, step, until } from "./format.js";

const PAGE = 100;
const STATES = { "": "all", active: "active", queued: "queued", running: "running", succeeded: "succeeded", failed: "failed", cancelled: "cancelled" };

const matches = (job, word) => [job.id, job.spec?.name, job.spec?.tenant, job.state, job.reason?.text].some((text) => text?.toLowerCase().includes(word));

// What keeps a job that waits, what would help, and when it starts at the latest.
const why = (job) => h("span", { class: "why" }, job.reason?.text, waiting(job) && job.reason?.hint && h("span", { class: "hint" }, ` → ${job.reason.hint}`),
  Number(job.starts_wall_ms) > 0 && h("span", {}, "; starts ", until(job.starts_wall_ms), " at the latest"));

export function jobsView(root) {
  const body = h("div"), pages = h("p", { class: "pages" });
  const chosen = new URLSearchParams(location.hash.split("?")[1] || "").get("state") || "";
  const cursors = [undefined]; // of this page, behind those of the pages before it
  const filter = h("input", { type: "search", placeholder: "Filter this page", "aria-label": "Filter the jobs of this page by text", "data-shortcut": "/", oninput: () => draw() });
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "State" }, Object.entries(STATES).map(([word, name]) =>
    h("a", { href: word ? `#/jobs?state=${word}` : "#/jobs", "aria-current": word === chosen ? "true" : undefined }, name)));
  root.replaceChildren(h("h1", {}, "Jobs"), h("div", { class: "tools" }, tabs, filter), body, pages);
  let jobs = [], next = "";

  function draw() {
    const word = filter.value.trim().toLowerCase();
    const shown = word ? jobs.filter((job) => matches(job, word)) : jobs;
    show(body, table(
      ["Name", "Job", "Tenant", "State", ">Workers", ">Step", ">Loss", ">Tokens/s", "Submitted", "Reason"],
      shown.map((job) => ({ key: job.id, cells: [
        jobLink(job.id, job.spec?.name), jobLink(job.id, job.id), job.spec?.tenant, state(job.state), job.world || 0,
        step(job), loss(job.loss), rate(job), ago(job.submitted_wall_ms), why(job),
      ] })),
      jobs.length ? "No job of this page has that in it." : chosen ? `No job is ${chosen}.` : "No jobs yet. In a terminal: muster run -- COMMAND", "Jobs"));
    show(pages,
      cursors.length > 1 && h("button", { class: "quiet", "data-key": "newer", onclick: () => turn(() => cursors.pop()) }, "← newer"),
      next && h("button", { class: "quiet", "data-key": "older", onclick: () => turn(() => cursors.push(next)) }, "older →"),
      (next || cursors.length > 1) && h("span", { class: "dim", "data-key": "page" }, `page ${cursors.length}, ${PAGE} jobs each`));
  }

  async function turn(change) {
    change();
    await view.refresh();
    scrollTo(0, 0);
  }

  const view = {
    async refresh() {
      const answer = await api.listJobs({ limit: PAGE, state: chosen, cursor: cursors.at(-1) });
      jobs = answer.jobs || [];
      next = answer.next_cursor || "";
      draw();
    },
  };
  return view;
}
