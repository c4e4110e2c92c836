// Who changed what, newest first: for administrators.

import * as api from "./api.js";
import { h, jobLink, show, table } from "./dom.js";
import { time } from "./format.js";

const SHOWN_MAX = 500;
const JOB_ID = /^j\d+$/;

const who = (entry) => h("span", {}, entry.token_name || entry.token || "nobody", " ", h("small", {}, [entry.role, entry.tenant && `of ${entry.tenant}`].filter(Boolean).join(" ")));
const from = (entry) => [entry.carrier?.toUpperCase(), entry.peer].filter(Boolean).join(", ");
const words = (method) => method.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
const result = (entry) => (entry.result === "OK" ? h("span", { class: "why" }, h("span", { class: "state succeeded" }, h("span", { "aria-hidden": "true" }, "✓"), "done"), entry.text && h("span", { class: "dim" }, ` ${entry.text}`))
  : h("span", { class: "why error" }, `✕ ${entry.result.replaceAll("_", " ").toLowerCase()}: ${entry.text}`));

export function auditView(root) {
  const body = h("div");
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the audit trail by text", "data-shortcut": "/", oninput: () => draw() });
  root.replaceChildren(h("h1", {}, "Audit"), h("div", { class: "tools" }, h("p", { class: "dim" }, `Who changed what: the last ${SHOWN_MAX}; `, h("code", {}, "muster events --audit"), " has more."), filter), body);
  let after = 0, all = [];

  function draw() {
    const word = filter.value.trim().toLowerCase();
    const has = (e) => [e.token_name, e.role, e.tenant, e.peer, e.method, words(e.method), e.object, e.result, e.text].some((text) => text?.toLowerCase().includes(word));
    show(body, table([">#", "Time", "Who", "From", "What", "To", "Result"],
      (word ? all.filter(has) : all).map((e) => ({ key: e.seq, cells: [
        e.seq, time(e.wall_ms), who(e), from(e), words(e.method), JOB_ID.test(e.object) ? jobLink(e.object) : h("span", { class: "why" }, e.object), result(e)] })),
      all.length ? "No entry has that in it." : "Nobody has changed anything yet.", "Audit trail"));
  }

  return {
    async refresh() {
      const answer = await api.listAudit({ after, limit: SHOWN_MAX, newest: after ? "" : "true" });
      after = answer.next || after;
      all = [...(answer.entries || []).reverse(), ...all].slice(0, SHOWN_MAX);
      draw();
    },
  };
}
