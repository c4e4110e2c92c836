// Small pieces every view uses. Text always enters as text nodes: nothing from a job is ever markup.

export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

export const state = (word) => h("span", { class: `state ${word || "unknown"}` }, word || "unknown");

export function table(titles, rows, empty) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  return h("div", { class: "scroll" },
    h("table", {},
      h("thead", {}, h("tr", {}, titles.map((t) => h("th", { scope: "col", class: t.startsWith(">") ? "number" : undefined }, t.replace(/^>/, ""))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => h("td", { class: titles[i].startsWith(">") ? "number" : undefined, "data-title": titles[i].replace(/^>/, "") }, cell ?? "")))))));
}

// Show `fresh` in `place` unless it looks the same already: focus and selected text survive a refresh.
export function show(place, fresh) {
  const nodes = Array.isArray(fresh) ? fresh : [fresh];
  const text = nodes.map((n) => (typeof n === "string" ? n : n.outerHTML)).join("");
  if (place.dataset.shown === text) return;
  if (!getSelection().isCollapsed && place.contains(getSelection().anchorNode)) return;
  const focus = place.contains(document.activeElement) ? document.activeElement.textContent : null;
  place.replaceChildren(...nodes);
  place.dataset.shown = text;
  if (focus) [...place.querySelectorAll("a, button")].find((e) => e.textContent === focus)?.focus();
}

export function age(wallMs) {
  const ms = Number(wallMs || 0);
  if (!ms) return "–";
  const s = Math.max(0, Math.floor((Date.now() - ms) / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function bytes(value) {
  let n = Number(value || 0);
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (n < 1024 || unit === "TiB") return `${unit === "B" ? n : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
}

export function count(value) {
  const n = Number(value || 0);
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)} M`;
  if (n >= 1e3) return `${(n / 1e3).toFixed(1)} k`;
  return `${Math.round(n)}`;
}

// The hour today, with the day before it on other days.
export function time(wallMs) {
  if (!Number(wallMs)) return "–";
  const at = new Date(Number(wallMs));
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString() : at.toLocaleString();
}
export const step = (job) => (Number(job.total_steps) ? `${job.step || 0} / ${job.total_steps}` : `${job.step || 0}`);
export const loss = (value) => (Number(value) > 0 ? Number(value).toFixed(4) : "–");
export const ended = (word) => ["succeeded", "failed", "cancelled"].includes(word);
