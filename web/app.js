// Routes (#/, #/jobs/ID, #/nodes, #/tenants, #/events), one refresh a second while the page is visible, and
// the sign-in form whenever the coordinator asks who we are.

import * as api from "./api.js";
import { h } from "./dom.js";
import { jobsView } from "./jobs.js";
import { jobView } from "./job.js";
import { nodesView } from "./nodes.js";
import { eventsView } from "./events.js";
import { tenantsView } from "./tenants.js";

const REFRESH_MS = 1000;
const root = document.getElementById("view");
const link = document.getElementById("link");
let current = null; // { refresh(), close() }
let busy = false;

function route() {
  const path = location.hash.replace(/^#/, "") || "/";
  const jobMatch = path.match(/^\/jobs\/(.+)$/);
  if (jobMatch) return { name: "jobs", make: () => jobView(root, decodeURIComponent(jobMatch[1])) };
  if (path === "/nodes") return { name: "nodes", make: () => nodesView(root) };
  if (path === "/tenants") return { name: "tenants", make: () => tenantsView(root) };
  if (path === "/events") return { name: "events", make: () => eventsView(root) };
  return { name: "jobs", make: () => jobsView(root) };
}

function showLogin(message) {
  current?.close?.();
  current = null;
  const input = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, "aria-label": "Access token" });
  const note = h("p", { class: "error", role: "alert" }, message || "");
  const form = h("form", {
    class: "login",
    onsubmit: async (event) => {
      event.preventDefault();
      try {
        await api.login(input.value.trim());
        navigate();
      } catch (error) {
        note.textContent = error.message;
      }
    },
  }, h("h1", {}, "Sign in"), h("p", {}, "Paste an access token. ", h("code", {}, "muster up"), " keeps one in ", h("code", {}, "admin.token"), " of its data folder."), input, h("button", {}, "Sign in"), note);
  root.replaceChildren(form);
  input.focus();
}

async function refresh() {
  if (!current || busy || document.hidden) return;
  busy = true;
  const shown = current;
  try {
    await shown.refresh();
    link.textContent = "live";
    link.className = "live";
  } catch (error) {
    if (error.status === 401 || error.status === 403) showLogin(error.status === 403 ? error.message : "");
    else if (error.status === 404 && shown === current) {
      root.replaceChildren(h("p", { class: "error" }, error.message), h("p", {}, h("a", { href: "#/" }, "All jobs")));
      current = null;
    } else {
      link.textContent = error.message;
      link.className = "down";
    }
  } finally {
    busy = false;
  }
}

function navigate() {
  current?.close?.();
  const target = route();
  for (const a of document.querySelectorAll("nav a")) {
    if (a.dataset.view === target.name) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  root.replaceChildren(h("p", {}, "Loading…"));
  current = target.make();
  busy = false;
  refresh();
}

async function start() {
  // A link printed by a tool may carry the token behind the hash: sign in and forget it.
  const carried = location.hash.match(/^#token=(.+)$/);
  if (carried) {
    history.replaceState(null, "", location.pathname);
    try {
      await api.login(decodeURIComponent(carried[1]));
    } catch (error) {
      showLogin(error.message);
      return;
    }
  }
  navigate();
}

addEventListener("hashchange", navigate);
document.addEventListener("visibilitychange", refresh);
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea") || event.metaKey || event.ctrlKey || event.altKey) return;
  const to = { j: "#/", n: "#/nodes", t: "#/tenants", e: "#/events" }[event.key];
  if (to) location.hash = to;
});
setInterval(refresh, REFRESH_MS);
start();
