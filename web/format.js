// Numbers, sizes and times as people read them. Times carry the full moment for those who point at
// them.

import { h } from "./dom.js";

const DAY_S = 86400;

// "3 m 20 s": the two largest units.
export function span(ms) {
  const s = Math.max(0, Number(ms || 0) / 1000);
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${Math.floor(s % 60)} s`;
  if (s < DAY_S) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
  return `${Math.floor(s / DAY_S)} d ${Math.floor((s % DAY_S) / 3600)} h`;
}

function moment(wallMs, text) {
  const at = new Date(Number(wallMs));
  return h("time", { datetime: at.toISOString(), title: at.toLocaleString() }, text);
}

export function ago(wallMs) {
  if (!Number(wallMs)) return "–";
  const ms = Math.max(0, Date.now() - Number(wallMs));
  return moment(wallMs, ms < 1000 ? "just now" : `${span(Math.floor(ms / 1000) * 1000).replace(/\.0 s$/, " s")} ago`);
}

export function until(wallMs) {
  const ms = Number(wallMs) - Date.now();
  return moment(wallMs, ms <= 0 ? "any moment" : `in ${span(ms)}`);
}

// The hour today, with the day before it on other days.
export function timeText(wallMs) {
  const at = new Date(Number(wallMs));
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString() : at.toLocaleString();
}
export const time = (wallMs) => (Number(wallMs) ? moment(wallMs, timeText(wallMs)) : "–");

export function bytes(value) {
  let n = Number(value || 0);
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (n < 1024 || unit === "TiB") return `${unit === "B" ? n : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
}

// As it is, in groups of three.
export const number = (value) => Number(value || 0).toLocaleString("en").replaceAll(",", " ");

export function count(value) {
  const n = Number(value || 0);
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)} M`;
  if (n >= 1e4) return `${(n / 1e3).toFixed(1)} k`;
  return number(Math.round(n));
}

export const plural = (n, word) => `${n} ${word}${Number(n) === 1 ? "" : "s"}`;
export const percent = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–");

// What a program did not tell is null: a dash, not a 0.
const told = (value, text) => (value === null || value === undefined ? "–" : text(value));
export const counted = (value) => told(value, count);
export const loss = (value) => told(value, (v) => (typeof v === "number" ? v.toFixed(4) : v)); // else "NaN", "Infinity"
export const rate = (job) => counted(job.tokens_per_second);
export const step = (job) => counted(job.step) + (Number(job.total_steps) ? ` / ${count(job.total_steps)}` : "");
