// The cluster's event log, newest first.

import * as api from "./api.js";
import { h, show, state, table, time } from "./dom.js";

const SHOWN_MAX = 1000;

export function eventsView(root) {
  const body = h("div");
  root.replaceChildren(h("h1", {}, "Events"), body);
  let after = 0;
  let all = [];
  return {
    async refresh() {
      const answer = await api.listEvents(after);
      after = answer.next || after;
      if (all.length && !(answer.events || []).length) return;
      all = all.concat(answer.events || []).slice(-SHOWN_MAX);
      show(body, table([">#", "Time", "What", "Job", "Node", ">Generation", "Reason"],
        all.slice().reverse().map((e) => [
          e.seq, time(e.wall_ms), e.to ? h("span", {}, `${e.from} → `, state(e.to)) : e.kind,
          e.job ? h("a", { href: `#/jobs/${encodeURIComponent(e.job)}` }, e.job) : "", e.node,
          Number(e.generation) ? e.generation : "", e.reason?.text,
        ]), "Nothing has happened yet."));
    },
  };
}
