// Small pieces every view uses. Text always enters as text nodes: nothing from a job is ever markup.

const HANDLERS = ["onclick", "onchange", "oninput", "onsubmit", "onclose"];

// An element. Attributes that are functions are its handlers, children may be nested and may be
// missing (null, undefined, false, "").
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== ""));
  return node;
}

// Make the content of `place` look like `fresh`, touching only what differs: focus, selected text,
// scroll positions, open folds and what was typed stay. Elements with the same data-key are the same
// thing; those with data-keep look after their own content.
export function show(place, ...fresh) {
  merge(place, h("div", {}, fresh));
}

function merge(place, fresh) {
  const wanted = new Set([...fresh.children].map((c) => c.dataset.key));
  const known = new Map([...place.children].filter((c) => c.dataset.key).map((c) => [c.dataset.key, c]));
  let at = place.firstChild;
  for (const want of [...fresh.childNodes]) {
    while (at?.dataset?.key && !wanted.has(at.dataset.key)) at = drop(at);
    const key = want.dataset?.key;
    const have = key ? known.get(key) : at;
    if (!have || have.nodeName !== want.nodeName || (have.dataset?.key || "") !== (key || "")) {
      place.insertBefore(want, at);
      continue;
    }
    if (have === at) at = at.nextSibling;
    else place.insertBefore(have, at);
    update(have, want);
  }
  while (at) at = drop(at);
}

function drop(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function update(have, want) {
  if (have.nodeType === Node.TEXT_NODE) {
    if (have.data !== want.data) have.data = want.data;
    return;
  }
  for (const { name } of [...have.attributes])
    if (!want.hasAttribute(name) && name !== "open") have.removeAttribute(name);
  for (const { name, value } of want.attributes)
    if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  for (const name of HANDLERS) have[name] = want[name];
  if (have.dataset.keep === undefined) merge(have, want);
}

// A table with headers; a title that starts with ">" heads numbers. A row is its cells, or
// { key, cells, class }. On narrow screens rows become cards, so every cell knows its title; the
// roles keep it a table for those who listen.
export function table(titles, rows, empty, caption) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  const names = titles.map((t) => t.replace(/^>/, ""));
  const kind = titles.map((t) => (t.startsWith(">") ? "number" : undefined));
  const line = (row) => {
    const cells = row.cells || row;
    return h("tr", { role: "row", "data-key": row.key, class: row.class },
      cells.map((cell, i) => h("td", { role: "cell", class: kind[i], "data-title": names[i] }, cell ?? "")));
  };
  return h("div", { class: "scroll" },
    h("table", { role: "table", "aria-label": caption },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, names.map((name, i) => h("th", { role: "columnheader", scope: "col", class: kind[i] }, name)))),
      h("tbody", { role: "rowgroup" }, rows.map(line))));
}

// A part of a page with its heading; `beside` stands at the end of the heading's line.
export const section = (title, beside, ...content) =>
  h("section", { "data-key": title, "aria-label": title }, h("div", { class: "heading" }, h("h2", {}, title), beside), content);

const SIGNS = {
  running: "●", succeeded: "✓", ready: "●", joined: "●", exited: "○", failed: "✕", lost: "✕", unreachable: "✕",
  stalled: "▲", cancelled: "○", queued: "◔", starting: "◔", assigned: "◔", joining: "◔", reforming: "↻", restarting: "↻",
  preempting: "◐", stopping: "◐", cordoned: "◐", draining: "◐", drained: "◌",
};

// A state as a word with a sign and a colour, so that none of them is needed alone.
export const state = (word) => h("span", { class: `state ${word || "unknown"}` }, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[word] || "·"), word || "unknown");

// Of a job: one that is running and stands still is said to.
export const jobState = (job) => state(job.stalled_wall_ms && Number(job.stalled_wall_ms) ? "stalled" : job.state);

export const jobLink = (id, name) => h("a", { href: `#/jobs/${encodeURIComponent(id)}`, title: name }, name || id);

// Jobs that hold slots have one of a few colours, and keep it. One that comes gets the colour of its
// number unless another has it, then the next that is free; only beyond eight jobs do two share one.
const JOB_COLOURS = 8;
const worn = new Map();
const own = (id) => Number(/^j(\d+)$/.exec(id)?.[1] || 0) % JOB_COLOURS;

// The jobs that hold slots now: before anything of them is drawn.
export function colourJobs(ids) {
  const here = new Set(ids);
  for (const id of worn.keys()) if (!here.has(id)) worn.delete(id);
  for (const id of here) {
    if (worn.has(id)) continue;
    const taken = new Set(worn.values());
    const turns = Array.from({ length: JOB_COLOURS }, (_, i) => (own(id) + i) % JOB_COLOURS);
    worn.set(id, turns.find((colour) => !taken.has(colour)) ?? own(id));
  }
}
export const jobColour = (id) => `job-${worn.get(id) ?? own(id)}`;

export const ended = (word) => ["succeeded", "failed", "cancelled"].includes(word);
export const waiting = (job) => job.state === "queued" || (job.state === "restarting" && !Number(job.world));
