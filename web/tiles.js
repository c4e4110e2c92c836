// Nodes as tiles: a cell for each slot, in the colour of the job that holds it. Pointing at a job, or
// moving focus to it, marks its cells on all nodes.

import { colourJobs, h, jobColour, state } from "./dom.js";
import { plural } from "./format.js";

const CELLS_MAX = 64; // more slots are drawn as parts of a bar

function cells(slots, many, colour) {
  return Array.from({ length: many ? 1 : slots }, () => h("span", { class: `cell ${colour}` }));
}

const room = (slots, many) => ({ class: many ? "use part" : "use", style: many ? `flex-grow: ${slots}` : undefined });

function held(use, node, many) {
  const what = use.job ? use.name : "another tenant's";
  const label = `${what}: ${plural(use.slots, "slot")} of ${node.name}`;
  const inside = cells(use.slots, many, use.job ? jobColour(use.job) : "foreign");
  const attributes = { ...room(use.slots, many), "data-key": use.job || "others", title: label, "aria-label": label };
  return use.job ? h("a", { ...attributes, href: `#/jobs/${encodeURIComponent(use.job)}`, "data-job": use.job }, inside)
    : h("span", { ...attributes, tabindex: "0", role: "img" }, inside);
}

// What others hold is one part: whose it is is not said.
function gather(uses) {
  const mine = uses.filter((u) => u.job && u.slots);
  const foreign = uses.filter((u) => !u.job).reduce((sum, u) => sum + u.slots, 0);
  return foreign ? [...mine, { job: "", slots: foreign }] : mine;
}

// Colours for the jobs on all nodes: before anything of them is drawn.
export const colourNodes = (nodes) => colourJobs(nodes.flatMap((node) => (node.uses || []).map((use) => use.job)).filter(Boolean));

export const tiles = (nodes) => nodes.map(tile);

export function tile(node) {
  const uses = gather(node.uses || []);
  const many = node.slots > CELLS_MAX;
  const free = Math.max(0, (node.slots || 0) - (node.slots_used || 0));
  const usable = node.state === "ready";
  const freeText = usable ? `${free} free` : "unavailable";
  return h("article", { class: `tile ${node.state}`, "data-key": node.name, "aria-label": `${node.name}, ${node.state}, ${freeText} of ${plural(node.slots || 0, "slot")}` },
    h("h3", {}, h("a", { class: "name", title: node.name, href: `#/nodes/${encodeURIComponent(node.name)}` }, node.name), state(node.state)),
    h("div", { class: "cells" }, uses.map((use) => held(use, node, many)),
      free > 0 && h("span", { ...room(free, many), "data-key": "free", title: freeText }, cells(free, many, usable ? "free" : "idle"))),
    h("ul", { class: "legend" },
      uses.map((use) => h("li", { "data-key": use.job || "others", "data-job": use.job || undefined },
        h("span", { class: `swatch ${use.job ? jobColour(use.job) : "foreign"}` }), h("span", { class: "name" }, use.job ? use.name : "(another tenant's)"), h("span", { class: "dim" }, use.slots))),
      free > 0 && h("li", { "data-key": "free", class: "dim" }, h("span", { class: `swatch ${usable ? "free" : "idle"}` }), h("span", { class: "name" }, usable ? "free" : freeText), h("span", {}, free))));
}

// Marks what belongs to the job under the pointer or focus, inside `place`.
export function markJobs(place) {
  const mark = (event) => {
    const job = event.target.closest?.("[data-job]")?.dataset.job;
    place.classList.toggle("pointing", Boolean(job));
    for (const part of place.querySelectorAll("[data-job]")) part.classList.toggle("pointed", part.dataset.job === job);
  };
  for (const kind of ["mouseover", "focusin", "focusout", "mouseleave"]) place.addEventListener(kind, mark);
}
