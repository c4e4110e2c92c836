// The cluster's event log, newest first.

import * as api from "./api.js";
import { h, jobLink, show, state, table } from "./dom.js";
import { time } from "./format.js";

const SHOWN_MAX = 500;

export function eventsView(root) {
  const body = h("div");
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter events by text", "data-shortcut": "/", oninput: () => draw() });
  root.replaceChildren(h("h1", {}, "Events"), h("div", { class: "tools" }, h("p", { class: "dim" }, `The last ${SHOWN_MAX}; `, h("code", {}, "muster events"), " has all."), filter), body);
  let after = 0, all = [];

  function draw() {
    const word = filter.value.trim().toLowerCase();
    const has = (e) => [e.kind, e.job, e.node, e.from, e.to, e.reason?.text].some((text) => text?.toLowerCase().includes(word));
    show(body, table([">#", "Time", "What", "Job", "Node", ">Generation", "Reason"],
      (word ? all.filter(has) : all).map((e) => ({ key: e.seq, cells: [
        e.seq, time(e.wall_ms), e.to ? h("span", {}, e.from && `${e.from} → `, state(e.to)) : e.kind === "stalled" ? state(e.kind) : e.kind.replaceAll("_", " "),
        e.job ? jobLink(e.job) : "", e.node, Number(e.generation) ? e.generation : "", h("span", { class: "why" }, e.reason?.text),
      ] })), all.length ? "No event has that in it." : "Nothing has happened yet.", "Events"));
  }

  return {
    async refresh() {
      const answer = await api.listEvents({ after, limit: SHOWN_MAX, newest: after ? "" : "true" });
      after = answer.next || after;
      all = [...(answer.events || []).reverse(), ...all].slice(0, SHOWN_MAX);
      draw();
    },
  };
}
