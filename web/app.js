// Routes, one refresh a second while the page is visible, and the sign-in form whenever the
// coordinator asks who we are. A view is { refresh(), close() }; it draws into `root`.

import * as api from "./api.js";
import * as session from "./session.js";
import { h, show } from "./dom.js";
import { timeText } from "./format.js";
import { listen } from "./keys.js";
import { overview } from "./overview.js";
import { jobsView } from "./jobs.js";
import { jobView } from "./job.js";
import { nodesView } from "./nodes.js";
import { tenantsView } from "./tenants.js";
import { eventsView } from "./events.js";

const REFRESH_MS = 1000;
const STALE_MS = 5000; // one late answer is no news
const root = document.getElementById("view");
const link = document.getElementById("link");
const stale = document.getElementById("stale");
const me = document.getElementById("me");
let current = null;
let busy = false;
let fresh = 0; // when the page last showed the truth

const VIEWS = { overview, jobs: jobsView, nodes: nodesView, tenants: tenantsView, events: eventsView };

function route() {
  const path = location.hash.replace(/^#\/?/, "").split("?")[0];
  const id = /^jobs\/(.+)$/.exec(path)?.[1];
  if (id) return { name: "jobs", make: () => jobView(root, decodeURIComponent(id)) };
  const name = VIEWS[path] ? path : "overview";
  return { name, make: () => VIEWS[name](root) };
}

function leave() {
  current?.close?.();
  current = null;
}

function showLogin(message) {
  leave();
  link.textContent = "";
  link.className = "";
  stale.hidden = true;
  me.replaceChildren();
  const token = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, "aria-label": "Access token" });
  const note = h("p", { class: "error", role: "alert" }, message || "");
  const form = h("form", {
    class: "login",
    onsubmit: async (event) => {
      event.preventDefault();
      try {
        await api.login(token.value.trim());
        await enter();
      } catch (error) {
        note.textContent = error.message;
      }
    },
  }, h("h1", {}, "Sign in"), h("p", {}, "Paste an access token. ", h("code", {}, "muster up"), " keeps one in ", h("code", {}, "admin.token"), " of its data folder."), token, h("button", {}, "Sign in"), note);
  root.replaceChildren(form);
  token.focus();
}

function showMe() {
  const { name, role, tenant } = session.who();
  show(me, h("span", { class: "dim", title: `Signed in with the token ${name}` }, tenant ? `${role} of ${tenant}` : role), " ",
    h("button", { class: "quiet", onclick: async () => {
      await api.logout();
      showLogin();
    } }, "Sign out"));
}

// What is shown is true, or the page says since when it is not.
function showLink(error) {
  const late = Date.now() - fresh > STALE_MS;
  link.textContent = error ? "no answer" : "live";
  link.className = error ? "down" : "live";
  stale.hidden = !error || !late;
  if (!stale.hidden) stale.textContent = `${error.message}. What you see is from ${fresh ? timeText(fresh) : "before"}; the page goes on trying.`;
  document.body.classList.toggle("old", !stale.hidden);
}

async function refresh() {
  if (!current || busy || document.hidden) return;
  busy = true;
  const shown = current;
  try {
    await shown.refresh();
    fresh = Date.now();
    showLink(null);
  } catch (error) {
    if (shown !== current) return;
    if (error.status === undefined) throw error; // a fault of the page: the console tells
    if (error.status === 401 || error.status === 403) showLogin(error.status === 403 ? error.message : "");
    else if (error.status === 404) {
      leave();
      root.replaceChildren(h("p", { class: "error" }, error.message), h("p", {}, h("a", { href: "#/jobs" }, "All jobs")));
    } else showLink(error);
  } finally {
    if (shown === current || !current) busy = false;
  }
}

function navigate() {
  leave();
  const target = route();
  for (const a of document.querySelectorAll("nav a")) {
    if (a.dataset.view === target.name) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  root.replaceChildren(h("p", { class: "empty" }, "Loading…"));
  scrollTo(0, 0);
  current = target.make();
  busy = false;
  refresh();
}

async function enter() {
  try {
    await session.learn();
    showMe();
  } catch (error) {
    if (error.status === 401) return showLogin();
    showLink(error);
    setTimeout(enter, REFRESH_MS);
    return;
  }
  navigate();
}

async function start() {
  listen();
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
  await enter();
}

addEventListener("hashchange", () => {
  if (session.who().role) navigate();
});
document.addEventListener("visibilitychange", refresh);
setInterval(refresh, REFRESH_MS);
start();
