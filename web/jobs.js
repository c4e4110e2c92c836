// All jobs, newest first, a page at a time, with the reason for every state. The address says what is
// shown: state, tenant, page and filter, so a link and the way back lead to the same.

import * as api from "./api.js";
import { ended, h, jobLink, jobState, show, table, waiting } from "./dom.js";
import { ago, count, loss, rate, step, until } from "./format.js";

const PAGE = 100;
const STATES = ["", "active", "stalled", "queued", "running", "succeeded", "failed", "cancelled"];
const BETWEEN = ["starting", "reforming", "restarting", "preempting", "stopping"]; // shown while there are some

const matches = (job, word) => [job.id, job.spec?.name, job.spec?.tenant, job.state, job.reason?.text].some((text) => text?.toLowerCase().includes(word));

// What keeps a job that waits, what would help, and when it starts at the latest.
const why = (job) => h("span", { class: "why brief" }, job.reason?.text, waiting(job) && job.reason?.hint && h("span", { class: "hint" }, ` → ${job.reason.hint}`),
  Number(job.starts_wall_ms) > 0 && h("span", {}, "; starts ", until(job.starts_wall_ms), " at the latest"));

// Nothing where the program tells nothing.
function progress(job) {
  const parts = [step(job) !== "–" && `step ${step(job)}`, loss(job.loss) !== "–" && `loss ${loss(job.loss)}`, !ended(job.state) && rate(job) !== "–" && `${rate(job)} tokens/s`].filter(Boolean);
  return parts.length ? h("span", { class: "parts-line" }, parts.map((part) => h("span", {}, part))) : "";
}

export function jobsView(root) {
  const body = h("div"), pages = h("p", { class: "pages" }), tabs = h("div", { class: "tabs", role: "group", "aria-label": "State" });
  const query = new URLSearchParams(location.hash.split("?")[1] || "");
  const chosen = query.get("state") || "", tenant = query.get("tenant") || "";
  const cursors = [undefined, ...(query.get("cursor")?.split(",") || [])]; // of this page, behind those before it
  const filter = h("input", { type: "search", placeholder: "Filter this page", value: query.get("q") || "", "aria-label": "Filter the jobs of this page by text", "data-shortcut": "/", oninput: () => {
    remember();
    draw();
  } });
  root.replaceChildren(h("h1", {}, "Jobs", tenant && h("small", {}, ` of ${tenant} `, h("a", { href: chosen ? `#/jobs?state=${chosen}` : "#/jobs" }, "of all"))), h("div", { class: "tools" }, tabs, filter), body, pages);
  let jobs = [], next = "";

  const place = (state, more = {}) => {
    const text = new URLSearchParams(Object.entries({ state, tenant, ...more }).filter(([, v]) => v)).toString();
    return text ? `#/jobs?${text}` : "#/jobs";
  };
  const remember = () => history.replaceState(null, "", place(chosen, { cursor: cursors.slice(1).join(","), q: filter.value.trim() }));

  function drawTabs(counts) {
    const words = [...STATES, ...BETWEEN].filter((word) => STATES.includes(word) ? word !== "stalled" || counts.stalled || chosen === word : counts[word] || chosen === word);
    show(tabs, words.map((word) => h("a", { "data-key": word || "all", href: place(word), "aria-current": word === chosen ? "true" : undefined }, word || "all",
      h("span", { class: "dim" }, tenant ? "" : ` ${count(counts[word || "all"])}`))));
  }

  function draw() {
    const word = filter.value.trim().toLowerCase();
    const shown = word ? jobs.filter((job) => matches(job, word)) : jobs;
    show(body, table(
      ["Name", "Job", "Tenant", "State", ">Workers", "Progress", "Submitted", "Reason"],
      shown.map((job) => ({ key: job.id, cells: [
        h("span", { class: "clip" }, jobLink(job.id, job.spec?.name)), jobLink(job.id, job.id), h("span", { class: "clip", title: job.spec?.tenant }, job.spec?.tenant), jobState(job), job.world || "",
        progress(job), ago(job.submitted_wall_ms), why(job),
      ] })),
      jobs.length ? "No job of this page has that in it." : chosen ? `No job${tenant && ` of ${tenant}`} is ${chosen}.` : tenant ? `No job is of tenant ${tenant}.` : "No jobs yet. In a terminal: muster run -- COMMAND", "Jobs"));
    show(pages,
      cursors.length > 1 && h("button", { class: "quiet", "data-key": "newer", onclick: () => turn(() => cursors.pop()) }, "← newer"),
      next && h("button", { class: "quiet", "data-key": "older", onclick: () => turn(() => cursors.push(next)) }, "older →"),
      (next || cursors.length > 1) && h("span", { class: "dim", "data-key": "page" }, `page ${cursors.length}, ${PAGE} jobs each`));
  }

  async function turn(change) {
    change();
    remember();
    await view.refresh();
    scrollTo(0, 0);
  }

  const view = {
    async refresh() {
      const [answer, now] = await Promise.all([api.listJobs({ limit: PAGE, state: chosen, tenant, cursor: cursors.at(-1) }), api.overview(1)]);
      jobs = answer.jobs || [];
      next = answer.next_cursor || "";
      drawTabs(now.jobs);
      draw();
    },
  };
  return view;
}
