// The keyboard: where each key leads, and the overlay that says so.

import { h } from "./dom.js";

const PLACES = { o: ["#/", "Overview"], j: ["#/jobs", "Jobs"], n: ["#/nodes", "Nodes"], t: ["#/tenants", "Tenants"], s: ["#/secrets", "Secrets"], e: ["#/events", "Events"], a: ["#/audit", "Audit, for administrators"] };
const OTHERS = [["/", "to the filter of this view"], ["↑ ↓", "from row to row of a table"], ["f", "follow the output of a job, or not"], ["?", "this help"], ["Esc", "close, or leave a field"]];

function help() {
  if (document.querySelector("dialog")) return;
  const rows = [...Object.entries(PLACES).map(([key, [, name]]) => [key, name]), ...OTHERS];
  const dialog = h("dialog", { "aria-label": "Keyboard", onclose: () => dialog.remove() },
    h("h2", {}, "Keyboard"),
    h("dl", { class: "keys" }, rows.map(([key, what]) => h("div", {}, h("dt", {}, key.split(" ").map((k) => h("kbd", {}, k))), h("dd", {}, what)))),
    h("div", { class: "buttons" }, h("button", { class: "quiet", onclick: () => dialog.close() }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

function moveRow(by) {
  const row = document.activeElement.closest("tbody tr");
  const rows = [...document.querySelectorAll("main tbody tr")].filter((r) => r.querySelector("a, button"));
  const next = row ? rows[rows.indexOf(row) + by] : rows[0];
  next?.querySelector("a, button").focus();
  return next;
}

export function listen() {
  document.getElementById("help").onclick = help;
  document.querySelector(".skip").onclick = (event) => {
    event.preventDefault(); // the hash is the route
    document.getElementById("view").focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog")) return;
    const typing = event.target.closest("input, textarea, select");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (PLACES[event.key]) location.hash = PLACES[event.key][0];
    else if (event.key === "?") help();
    else if (event.key === "f") document.querySelector("[data-shortcut=f]")?.click();
    else if (event.key === "/" && document.querySelector("[data-shortcut='/']")) document.querySelector("[data-shortcut='/']").focus();
    else if (!((event.key === "ArrowDown" && !event.target.closest(".log") && moveRow(1)) || (event.key === "ArrowUp" && event.target.closest("tbody") && moveRow(-1)))) return;
    event.preventDefault();
  });
}
