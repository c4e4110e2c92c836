// Routes, a refresh whenever the coordinator tells of a change while the page is visible, and the
// sign-in form whenever it asks who we are. A view is { refresh(), stream(), close() }, the last two
// if it has them: what else than the cluster's events tells of its changes. It draws into `root`.

import * as api from "./api.js";
import * as session from "./session.js";
import { h, show } from "./dom.js";
import { timeText } from "./format.js";
import { listen } from "./keys.js";
import { Changes } from "./live.js";
import { overview } from "./overview.js";
import { jobsView } from "./jobs.js";
import { jobView } from "./job.js";
import { nodesView } from "./nodes.js";
import { tenantsView } from "./tenants.js";
import { eventsView } from "./events.js";
import { auditView } from "./audit.js";

const POLL_MS = 1000; // where no stream comes through
const SLOW_MS = 2000; // else: losses, speeds and output change without an event
const CALM_MS = 150; // changes that come together are shown together
const STALE_MS = 5000; // one late answer is no news
const EVENTS_FROM_NOW = "/v1/events?limit=1&newest=true"; // only that there is one matters
const root = document.getElementById("view");
const link = document.getElementById("link");
const stale = document.getElementById("stale");
const me = document.getElementById("me");
let current = null;
let busy = false;
let missed = false; // a change was heard while a refresh was under way
let soon = 0; // the timer of a refresh
let asked = 0; // when the last one began
let fresh = 0; // when the page last showed the truth

const VIEWS = { overview, jobs: jobsView, nodes: nodesView, tenants: tenantsView, events: eventsView, audit: auditView };
const changes = new Changes(changed);

function route() {
  const path = location.hash.replace(/^#\/?/, "").split("?")[0];
  const id = /^jobs\/(.+)$/.exec(path)?.[1];
  if (id) return { name: "jobs", make: () => jobView(root, decodeURIComponent(id)) };
  const name = VIEWS[path] && (path !== "audit" || session.isAdmin()) ? path : "overview";
  return { name, make: () => VIEWS[name](root) };
}

function leave() {
  current?.close?.();
  current = null;
}

function showLogin(message) {
  leave();
  changes.follow("");
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
  }, h("h1", {}, "Sign in"), h("p", {}, "Paste an access token. The coordinator's data folder has one in ", h("code", {}, "admin.token"), "; ", h("code", {}, "muster token create"), " makes others."), token, h("button", {}, "Sign in"), note);
  root.replaceChildren(form);
  token.focus();
}

function showMe() {
  const { name, role, tenant } = session.who();
  document.querySelector("nav [data-view=audit]").hidden = !session.isAdmin();
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
  link.title = changes.open ? "Changes are shown as they happen" : "Asks for changes every second";
  stale.hidden = !error || !late;
  if (!stale.hidden) stale.textContent = `${error.message}. What you see is from ${fresh ? timeText(fresh) : "before"}; the page goes on trying.`;
  document.body.classList.toggle("old", !stale.hidden);
}

async function refresh() {
  if (busy) missed = true;
  if (!current || busy || document.hidden) return;
  busy = true;
  missed = false;
  asked = Date.now();
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
    if (missed) changed();
  }
}

function changed() {
  if (!soon) soon = setTimeout(() => {
    soon = 0;
    refresh();
  }, CALM_MS);
}

// What is not looked at holds no stream: a browser has few connections to one place.
function follow() {
  changes.follow(current && !document.hidden ? current.stream?.() || EVENTS_FROM_NOW : "");
}

function tick() {
  if (!changes.open || Date.now() - asked >= SLOW_MS) refresh();
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
  follow();
  refresh();
}

async function enter() {
  try {
    await session.learn();
    showMe();
  } catch (error) {
    if (error.status === 401) return showLogin();
    showLink(error);
    setTimeout(enter, POLL_MS);
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
document.addEventListener("visibilitychange", () => {
  follow();
  refresh();
});
setInterval(tick, POLL_MS);
start();
