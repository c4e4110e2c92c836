// Loss and speed by step, with a line where a generation began. Smoothing and a logarithmic scale
// are the reader's choice and change the picture only.

import * as api from "./api.js";
import { h } from "./dom.js";
import { number } from "./format.js";

const POINTS_MAX = 4000; // of a series; beyond it every other one goes
const SMOOTH_SHARE = 1 / 100; // of the curve: after as many points one counts half
const SMOOTH_LEAST = 3; // and after no fewer
const RECENT_POINTS = 60; // the speed is told by so many
const LOSS = 0, SPEED = 1, SMOOTH = 2;
const DRAWN = { loss: LOSS, tokens_per_second: SPEED }; // the series asked for
const SPEED_SHOWN = 0.98; // of the speeds fit on the scale: a few bursts would flatten the rest

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Dashed lines with the generation's number; `marks` is [{ step, generation }].
const generationLines = {
  id: "generations",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea: area, scales: { x } } = chart;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--dim");
    ctx.setLineDash([3, 4]);
    ctx.font = "11px system-ui, sans-serif";
    let free = -Infinity;
    for (const { step, generation } of chart.marks || []) {
      const at = x.getPixelForValue(step);
      if (at < area.left || at > area.right) continue;
      ctx.beginPath();
      ctx.moveTo(at, area.top);
      ctx.lineTo(at, area.bottom);
      ctx.stroke();
      if (at < free) continue; // no room for its number
      ctx.fillText(`g${generation}`, at + 3, area.top + 11);
      free = at + ctx.measureText(`g${generation}`).width + 9;
    }
    ctx.restore();
  },
};

function makeChart(canvas) {
  const axis = (text, position) => ({ type: "linear", position, bounds: position === "bottom" ? "data" : "ticks", beginAtZero: position === "bottom", title: { display: true, text }, ticks: { maxTicksLimit: 7, maxRotation: 0, ...(position !== "left" && { callback: number }) }, grid: { drawOnChartArea: position !== "right" } });
  const line = (label, yAxisID, borderWidth, extra) => ({ label, data: [], yAxisID, borderWidth, pointRadius: 0, pointHitRadius: 6, ...extra });
  return new Chart(canvas, {
    type: "line",
    data: { datasets: [line("loss", "y", 1, { order: 2 }), line("tokens/s", "rate", 1, { order: 1 }), line("loss, smoothed", "y", 2, { order: 0 })] },
    options: {
      animation: false, parsing: false, normalized: true, maintainAspectRatio: false,
      interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: { x: axis("step", "bottom"), y: axis("loss", "left"), rate: axis("tokens/s", "right") },
      plugins: { legend: { align: "start", labels: { boxWidth: 18, boxHeight: 1, filter: (item, data) => !data.datasets[item.datasetIndex].hidden } } },
    },
    plugins: [generationLines],
  });
}

function paint(chart) {
  const [loss, speed, smooth] = chart.data.datasets;
  loss.borderColor = smooth.hidden ? colour("--accent") : colour("--faint");
  smooth.borderColor = colour("--accent");
  speed.borderColor = colour("--second");
  for (const scale of Object.values(chart.options.scales)) {
    scale.ticks.color = scale.title.color = colour("--dim");
    scale.grid.color = scale.grid.borderColor = colour("--line");
  }
  chart.options.plugins.legend.labels.color = colour("--ink");
}

// Exponential average, corrected for its start.
export function smoothed(points) {
  const keep = Math.pow(0.5, 1 / Math.max(SMOOTH_LEAST, points.length * SMOOTH_SHARE));
  let sum = 0, weight = 0;
  return points.map(({ x, y }) => {
    sum = keep * sum + y;
    weight = keep * weight + 1;
    return { x, y: sum / weight };
  });
}

// Puts a point behind the others; what is told again from an earlier step replaces what was there.
export function take(data, point) {
  while (data.length && data[data.length - 1].x >= point.x) data.pop();
  data.push(point);
  if (data.length > POINTS_MAX) data.splice(0, data.length, ...data.filter((_, i) => i % 2 === data.length % 2));
}

// The end of the scale of speeds: round, and above all but the bursts.
function topOf(points) {
  const sorted = points.map((p) => p.y).sort((a, b) => a - b);
  const top = 1.2 * (sorted[Math.floor((sorted.length - 1) * SPEED_SHOWN)] || 0);
  if (!(top > 0)) return undefined;
  const unit = 10 ** Math.floor(Math.log10(top));
  return Math.ceil(top / unit) * unit;
}

export class Curves {
  constructor() {
    const canvas = h("canvas", { role: "img", "aria-label": "Loss and tokens per second by step" });
    const toggle = (text, change, on) => h("label", { class: "toggle" }, h("input", { type: "checkbox", checked: on, onchange: (event) => change(event.target.checked) }), text);
    this.tools = h("span", { class: "toggles" }, toggle("smooth", (on) => this.smooth(on), true), toggle("log scale", (on) => this.scale(on ? "logarithmic" : "linear")));
    this.empty = h("p", { class: "empty" });
    this.element = h("div", { class: "chart nothing", "data-keep": true }, canvas, this.empty);
    this.chart = typeof Chart === "undefined" ? null : makeChart(canvas);
    this.lastStep = 0;
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.onchange = () => this.redraw();
    this.redraw();
  }

  redraw() {
    if (!this.chart) return;
    paint(this.chart);
    this.chart.update();
  }

  smooth(on) {
    const sets = this.chart?.data.datasets;
    if (!sets) return;
    sets[SMOOTH].hidden = !on;
    sets[SMOOTH].data = on ? smoothed(sets[LOSS].data) : [];
    sets[LOSS].borderWidth = on ? 1 : 2;
    this.redraw();
  }

  scale(type) {
    if (!this.chart) return;
    this.chart.options.scales.y.type = type;
    this.redraw();
  }

  say(nothing) {
    this.empty.textContent = nothing;
  }

  async refresh(id, generations) {
    const answers = await Promise.all(Object.keys(DRAWN).map((name) => api.getSeries(id, name, this.lastStep || undefined)));
    const series = answers.flatMap((answer) => answer.series || []);
    if (!this.chart) return;
    const sets = this.chart.data.datasets;
    let fresh = false;
    for (const one of series) {
      const target = DRAWN[one.name];
      for (const point of one.points || []) {
        take(sets[target].data, { x: Number(point.step), y: Number(point.value), at: Number(point.wall_ms) });
        fresh = true;
        if (target === LOSS) this.lastStep = Math.max(this.lastStep, Number(point.step));
      }
    }
    this.element.classList.toggle("nothing", sets[LOSS].data.length === 0);
    this.tools.hidden = sets[LOSS].data.length === 0;
    if (!fresh) return;
    this.chart.options.scales.rate.max = topOf(sets[SPEED].data);
    sets[SPEED].hidden = sets[SPEED].data.length === 0; // no axis for what is never reported
    this.chart.options.scales.rate.display = !sets[SPEED].hidden;
    this.chart.marks = this.place(generations);
    if (!sets[SMOOTH].hidden) sets[SMOOTH].data = smoothed(sets[LOSS].data);
    this.chart.update();
  }

  // The step at which each generation did its first.
  place(generations) {
    const data = this.chart.data.datasets[LOSS].data;
    const marks = generations.map(({ from, generation }) => ({ generation, step: data.find((p) => p.at >= from)?.x }));
    return marks.filter((m, i) => m.step !== undefined && m.step !== marks[i + 1]?.step); // one that did none has no line
  }

  // Steps a second of late, 0 if nobody can say.
  speed() {
    const data = this.chart?.data.datasets[LOSS].data || [];
    const last = data[data.length - 1], first = data[Math.max(0, data.length - RECENT_POINTS)];
    return last && last.at > first.at ? ((last.x - first.x) * 1000) / (Date.now() - first.at) : 0;
  }

  close() {
    this.dark.onchange = null;
    this.chart?.destroy();
  }
}
