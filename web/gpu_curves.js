// What the GPUs of a job did, by step: a line for each of its first nodes, in percent. Drawn only
// where there are numbers.

import * as api from "./api.js";
import { colour, take } from "./curves.js";
import { h } from "./dom.js";

const NODES = 8; // as agent/gpu_metrics.h
const KINDS = { used: "time with a kernel running", memory: "memory in use" };
const DASH = { used: [], memory: [4, 4] };
const names = Object.keys(KINDS).flatMap((kind) => Array.from({ length: NODES }, (_, node) => `gpu.${kind}.node${node}`));

const hue = (node) => `hsl(${(210 + node * 47) % 360} 65% 50%)`;

function makeChart(canvas) {
  const axis = (text, extra) => ({ type: "linear", title: { display: true, text }, ticks: { maxTicksLimit: 7, maxRotation: 0 }, ...extra });
  return new Chart(canvas, {
    type: "line",
    data: { datasets: [] },
    options: {
      animation: false, parsing: false, normalized: true, maintainAspectRatio: false,
      interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: { x: axis("step", { position: "bottom", bounds: "data" }), y: axis("%", { min: 0, max: 100 }) },
      plugins: { legend: { align: "start", labels: { boxWidth: 18, boxHeight: 1 } } },
    },
  });
}

export class GpuCurves {
  constructor() {
    const canvas = h("canvas", { role: "img", "aria-label": "Use and memory of GPUs by step" });
    this.element = h("section", { "data-key": "GPUs", "aria-label": "GPUs", "data-keep": true, hidden: true },
      h("div", { class: "heading" }, h("h2", {}, "GPUs")), h("div", { class: "chart" }, canvas));
    this.chart = typeof Chart === "undefined" ? null : makeChart(canvas);
    this.sets = new Map();
    this.lastStep = 0;
  }

  set(name) {
    if (!this.sets.has(name)) {
      const [, kind, node] = name.split("."), index = Number(node.slice("node".length));
      this.sets.set(name, { label: `node ${index}: ${KINDS[kind]}`, data: [], borderColor: hue(index), borderDash: DASH[kind], borderWidth: 1.5, pointRadius: 0, pointHitRadius: 6 });
      this.chart.data.datasets = [...this.sets].sort(([a], [b]) => (a < b ? 1 : -1)).map(([, set]) => set);
    }
    return this.sets.get(name);
  }

  async refresh(id) {
    if (!this.chart) return;
    const { series = [] } = await api.getSeries(id, names.join(","), this.lastStep || undefined);
    let fresh = false;
    for (const one of series) {
      for (const point of one.points || []) {
        take(this.set(one.name).data, { x: Number(point.step), y: Number(point.value) });
        this.lastStep = Math.max(this.lastStep, Number(point.step) - 1); // the last step's sample may be replaced
        fresh = true;
      }
    }
    if (!fresh) return;
    this.element.hidden = false;
    for (const scale of Object.values(this.chart.options.scales)) {
      scale.ticks.color = scale.title.color = colour("--dim");
      scale.grid = { color: colour("--line"), borderColor: colour("--line") };
    }
    this.chart.options.plugins.legend.labels.color = colour("--ink");
    this.chart.update();
  }

  close() {
    this.chart?.destroy();
  }
}
