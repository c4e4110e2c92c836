// One job: where it is, its loss as it falls, what its workers print, and what happened to it.

import * as api from "./api.js";
import { whatIf } from "./plan.js";
import { age, bytes, count, ended, h, loss, show, state, step, table, time } from "./dom.js";

const LOG_LINES_MAX = 2000;

function lossChart(canvas) {
  const css = getComputedStyle(document.documentElement);
  const ink = css.getPropertyValue("--ink").trim();
  const grid = css.getPropertyValue("--line").trim();
  const axis = (text, position) => ({ type: "linear", position, title: { display: true, text, color: ink }, ticks: { color: ink, maxTicksLimit: 8 }, grid: { color: position === "right" ? "transparent" : grid } });
  return new Chart(canvas, {
    type: "line",
    data: { datasets: [
      { label: "loss", data: [], yAxisID: "y", borderColor: css.getPropertyValue("--accent").trim(), borderWidth: 2, pointRadius: 0, tension: 0.1 },
      { label: "tokens/s", data: [], yAxisID: "rate", borderColor: css.getPropertyValue("--second").trim(), borderWidth: 1, pointRadius: 0 },
    ] },
    options: {
      animation: false, parsing: false, normalized: true, maintainAspectRatio: false,
      interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: { x: axis("step", "bottom"), y: axis("loss", "left"), rate: axis("tokens/s", "right") },
      plugins: { legend: { labels: { color: ink } } },
    },
  });
}

class Metrics {
  constructor(canvas) {
    this.chart = typeof Chart === "undefined" ? null : lossChart(canvas);
    this.lastStep = 0;
  }
  async refresh(id) {
    const { series = [] } = await api.getMetrics(id, this.lastStep || undefined);
    let fresh = false;
    for (const one of series) {
      const target = { loss: 0, tokens_per_second: 1 }[one.name];
      if (target === undefined || !this.chart) continue;
      const data = this.chart.data.datasets[target].data;
      for (const point of one.points || []) {
        const x = Number(point.step);
        while (data.length && data[data.length - 1].x >= x) data.pop(); // a step done again after a recovery
        data.push({ x, y: Number(point.value) });
        fresh = true;
        if (one.name === "loss") this.lastStep = Math.max(this.lastStep, x);
      }
    }
    if (fresh) this.chart.update();
  }
  close() {
    this.chart?.destroy();
  }
}

class Logs {
  constructor(list, filter) {
    this.list = list;
    this.filter = filter;
    this.cursor = undefined;
    filter.addEventListener("change", () => {
      this.cursor = undefined;
      this.list.replaceChildren();
    });
  }
  async refresh(id) {
    const rank = this.filter.value;
    const answer = await api.getLogs(id, { rank, cursor: this.cursor, tail: this.cursor === undefined ? 500 : undefined, tail_lines: this.cursor === undefined ? 500 : undefined });
    if (rank !== this.filter.value) return;
    this.cursor = answer.cursor;
    this.list.classList.toggle("nothing", !this.list.childElementCount && !(answer.lines || []).length);
    const atEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    for (const line of answer.lines || []) {
      this.list.append(h("div", { class: line.is_stderr ? "stderr" : undefined },
        h("span", { class: "dim" }, `${time(line.wall_ms)} [${line.rank || 0}] `), line.text || ""));
    }
    while (this.list.childElementCount > LOG_LINES_MAX) this.list.firstChild.remove();
    if (atEnd) this.list.scrollTop = this.list.scrollHeight;
  }
}

function facts(job) {
  const checkpoint = job.last_checkpoint;
  const rows = [
    ["Step", step(job)], ["Loss", loss(job.loss)],
    ["Tokens/s", Number(job.tokens_per_second) > 0 ? count(job.tokens_per_second) : "–"],
    ["World", `${job.world || 0} ${job.world === 1 ? "worker" : "workers"}, generation ${job.generation || 0}`],
    ["Recoveries", `${job.recoveries || 0}${Number(job.last_recovery_ms) ? ` (last ${(Number(job.last_recovery_ms) / 1000).toFixed(2)} s)` : ""}, restarts ${job.restarts || 0}`],
    ...(job.spares?.length || job.spec?.nodes?.spares ? [["Spares", `${(job.spares || []).join(" ") || "none"} (of ${job.spec?.nodes?.spares || 0})`]] : []),
    ["Checkpoint", checkpoint?.path ? `step ${checkpoint.step}, ${bytes(checkpoint.size_bytes)}` : "none yet"],
    ["Submitted", `${age(job.submitted_wall_ms)} ago`],
  ];
  return h("dl", {}, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// The command as a shell would take it, and the whole spec behind a fold.
function specOf(job) {
  const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
  return [h("h2", {}, "Command"), h("pre", { class: "command" }, (job.spec?.command || []).map(quote).join(" ")),
    h("details", {}, h("summary", {}, "The whole spec"), h("pre", {}, JSON.stringify(job.spec, null, 2)))];
}

function updateRanks(filter, world) {
  const wanted = Math.max(1, world || 1) + 1;
  while (filter.options.length > wanted) filter.remove(filter.options.length - 1);
  for (let i = filter.options.length; i < wanted; i++) filter.append(h("option", { value: i - 1 }, i === 0 ? "all ranks" : `rank ${i - 1}`));
}

export function jobView(root, id) {
  const title = h("h1");
  const reason = h("p", { class: "reason" });
  const bar = h("progress", { max: "1", value: "0", "aria-label": "Progress" });
  const cancel = h("button", { class: "quiet", onclick: async () => {
    if (confirm(`End job ${id}? Its workers are stopped.`)) await api.cancelJob(id);
  } }, "Cancel job");
  const info = h("section"), spec = h("section"), workers = h("section"), events = h("section");
  const blockers = h("div"), question = whatIf(id);
  const waiting = h("section", { hidden: true }, h("h2", {}, "Why it waits"), blockers, question);
  const canvas = h("canvas", { role: "img", "aria-label": "Loss by step" });
  const list = h("div", { class: "log", tabindex: "0", role: "log", "aria-label": "Output of the workers" });
  const filter = h("select", { "aria-label": "Rank" }, h("option", { value: "-1" }, "all ranks"));
  root.replaceChildren(
    h("p", { class: "top" }, h("a", { href: "#/" }, "← all jobs"), cancel), title, reason, bar, info, waiting,
    h("section", {}, h("h2", {}, "Loss"), h("div", { class: "chart" }, canvas)),
    h("section", {}, h("h2", {}, "Output ", filter), list),
    workers, spec, events);
  const metrics = new Metrics(canvas);
  const logs = new Logs(list, filter);
  return {
    async refresh() {
      const job = await api.getJob(id);
      show(title, [`${job.spec?.name || job.id} `, h("span", { class: "dim" }, job.id), " ", state(job.state)]);
      show(reason, [job.reason?.text || "", job.reason?.hint ? h("span", { class: "hint" }, ` → ${job.reason.hint}`) : ""]);
      bar.value = Number(job.total_steps) ? Number(job.step || 0) / Number(job.total_steps) : ended(job.state) ? 1 : 0;
      cancel.hidden = ended(job.state);
      show(info, facts(job));
      show(spec, specOf(job));
      waiting.hidden = !["queued", "restarting"].includes(job.state);
      if (!waiting.hidden) {
        const { reasons = [] } = await api.getWhy(job.id);
        show(blockers, [h("ol", {}, reasons.map((r) => h("li", {}, r.text, r.hint ? h("span", { class: "hint" }, ` → ${r.hint}`) : null))),
          Number(job.starts_wall_ms) ? h("p", {}, `It starts by ${time(job.starts_wall_ms)} at the latest, if those who run keep to their max_runtime.`) : ""]);
      }
      updateRanks(filter, job.world);
      show(workers, [h("h2", {}, "Workers"), table([">Rank", "Node", "State", ">PID", ">Step", "Ended"],
        (job.workers || []).map((w) => [w.rank || 0, w.node, state(w.state), w.pid, w.step || 0, w.exit?.text]), "No workers now.")]);
      await Promise.all([metrics.refresh(job.id), logs.refresh(job.id)]);
      const { events: happened = [] } = await api.getJobEvents(job.id);
      show(events, [h("h2", {}, "What happened"), h("ol", { class: "events" }, happened.slice().reverse().map((e) =>
        h("li", {}, h("span", { class: "dim" }, time(e.wall_ms)), " ", e.to ? [`${e.from} → `, state(e.to)] : h("b", {}, e.kind),
          Number(e.generation) ? h("span", { class: "dim" }, ` generation ${e.generation}`) : "", e.reason?.text ? `: ${e.reason.text}` : "")))]);
    },
    close() {
      metrics.close();
    },
  };
}
