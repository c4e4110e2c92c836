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
import { secretsView } from "./secrets.js";
import { eventsView } from "./events.js";
import { auditView } from "./audit.js";

const POLL_MS = 1000; // where no stream comes through
const SLOW_MS = 2000; // else: losses, speeds and output change without an event
const CALM_MS = 150; // changes that come together are shown together
const STALE_MS = 5000; // one late answer is no news
const SILENT_MS = 2000; // no answer for so long: with SLOW_MS before it, told within STALE_MS
const EVENTS_FROM_NOW = "/v1/events?limit=1&newest=true"; // only that there is one matters
const root = document.getElementById("view");
const link = document.getElementById("link");
const stale = document.getElementById("stale");
const me = document.getElementById("me");
const nav = document.querySelector("nav");
let current = null;
let busy = false;
let missed = false; // a change was heard while a refresh was under way
let soon = 0; // the timer of a refresh
let asked = 0; // when the last one began
let fresh = 0; // when the page last showed the truth
let unanswered = false; // the last one
let known = false; // who looks at it: signed in

const VIEWS = { overview, jobs: jobsView, nodes: nodesView, tenants: tenantsView, secrets: secretsView, events: eventsView, audit: auditView };
const changes = new Changes(changed);

// What a part of the address says; one that is no text says itself.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function nowhere() {
  root.replaceChildren(h("h1", {}, "There is no such page"), h("p", {}, "Nothing is at ", h("code", {}, location.hash), ". ", h("a", { href: "#/" }, "Overview"), " or ", h("a", { href: "#/jobs" }, "all jobs")));
  return { refresh: async () => {} };
}

function route() {
  const path = location.hash.replace(/^#\/?/, "").split("?")[0];
  const [, place, name] = /^(jobs|nodes)\/(.+)$/.exec(path) || [];
  if (place === "jobs") return { name: place, title: "Job", make: () => jobView(root, decoded(name)) };
  if (place === "nodes") return { name: place, title: decoded(name), make: () => nodesView(root, decoded(name)) };
  const view = path === "" ? "overview" : path;
  if (!Object.hasOwn(VIEWS, view) || (view === "audit" && !session.isAdmin())) return { name: "", title: "Not found", make: nowhere };
  return { name: view, title: view[0].toUpperCase() + view.slice(1), make: () => VIEWS[view](root) };
}

function leave() {
  current?.close?.();
  current = null;
}

// A form that signs in and then calls `done`.
function loginForm(message, title, done) {
  const token = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, autofocus: true, "aria-label": "Access token" });
  const note = h("p", { class: "error", role: "alert" }, message || "");
  return h("form", {
    class: "login",
    onsubmit: async (event) => {
      event.preventDefault();
      try {
        await api.login(token.value.trim());
        await done();
      } catch (error) {
        note.textContent = error.message;
      }
    },
  }, h("h1", {}, title), h("p", {}, "Paste an access token. The coordinator's data folder has one in ", h("code", {}, "admin.token"), "; ", h("code", {}, "muster token create"), " makes others."), token, h("button", {}, "Sign in"), note);
}

function isOut(out) {
  known = !out;
  nav.hidden = out;
  if (!out) return;
  changes.follow("");
  link.textContent = "";
  link.className = "";
  stale.hidden = true;
  me.replaceChildren();
}

function showLogin(message) {
  leave();
  isOut(true);
  document.title = "Sign in · Muster";
  const form = loginForm(message, "Sign in", enter);
  root.replaceChildren(form);
  form.querySelector("input").focus();
}

// The session ended under a page that is open: it stays as it is, and goes on after signing in again.
function askLogin() {
  if (document.querySelector("dialog.again")) return;
  const before = session.who();
  for (const other of document.querySelectorAll("dialog")) other.close();
  isOut(true);
  const dialog = h("dialog", { class: "again", "aria-label": "Sign in again", onclose: () => {
    dialog.remove();
    if (!known) showLogin();
  } }, loginForm("", "Your session has ended", async () => {
    const me = await session.learn();
    isOut(false);
    dialog.close();
    showMe();
    if (!current || me.role !== before.role || me.tenant !== before.tenant) return navigate();
    follow();
    return refresh();
  }));
  document.body.append(dialog);
  dialog.showModal();
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
  link.textContent = !error ? "live" : error.status ? "refused" : "no answer";
  link.className = error ? "down" : "live";
  link.title = changes.open ? "Changes are shown as they happen" : "Asks for changes every second";
  stale.hidden = !error || !late;
  if (!stale.hidden) stale.textContent = `${error.message}. What you see is from ${fresh ? timeText(fresh) : "before"}; the page goes on trying.`;
  document.body.classList.toggle("old", !stale.hidden);
}

// What an answer other than the view's says of the view.
function showRefusal(error) {
  const text = [error.message, error.hint].filter(Boolean).join(". ");
  leave();
  root.replaceChildren(h("p", { class: "error", role: "alert" }, text), h("p", {}, h("a", { href: "#/jobs" }, "All jobs")));
  showLink(null);
}

async function refresh() {
  if (busy) missed = true;
  if (!current || !known || busy || document.hidden) return;
  busy = true;
  missed = false;
  asked = Date.now();
  const shown = current;
  try {
    await shown.refresh();
    fresh = Date.now();
    unanswered = false;
    showLink(null);
  } catch (error) {
    if (shown !== current) return;
    unanswered = true;
    if (error.status === undefined) throw error; // a fault of the page: the console tells
    if (error.status === 401) askLogin();
    else if (error.status === 403) showLogin(error.message);
    else if (error.status >= 400 && error.status < 500 && error.status !== 429) showRefusal(error);
    else showLink(error); // it may be answered the next time
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
  if (busy && current && known && !document.hidden && Date.now() - asked >= SILENT_MS) showLink({ message: "The coordinator does not answer" });
  if (unanswered || !changes.open || (Date.now() - asked >= SLOW_MS && !current?.isOver?.())) refresh();
}

function navigate() {
  leave();
  const target = route();
  document.title = `${target.title} · Muster`;
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
  if (!api.hasSession()) return showLogin();
  try {
    await session.learn();
    isOut(false);
    showMe();
  } catch (error) {
    if (error.status === 401) return showLogin();
    showLink(error);
    setTimeout(enter, POLL_MS);
    return;
  }
  navigate();
}

// A link printed by a tool may carry the token behind the hash: sign in, and keep it neither in the
// address nor in the history. False: it was not good.
async function takeToken() {
  const carried = location.hash.match(/^#token=(.+)$/);
  if (!carried) return true;
  try {
    await api.login(decoded(carried[1]));
    return true;
  } catch (error) {
    showLogin(error.message);
    return false;
  } finally { // not before: a page that is loaded anew meanwhile signs in again
    if (location.hash === carried[0]) history.replaceState(null, "", location.pathname);
  }
}

async function start() {
  listen();
  if (await takeToken()) await enter();
}

addEventListener("hashchange", async () => {
  if (location.hash.startsWith("#token=")) {
    for (const dialog of document.querySelectorAll("dialog")) dialog.close();
    if (await takeToken()) await enter();
  } else if (known) {
    navigate();
    root.focus({ preventScroll: true }); // those who listen hear where they are
  }
});
document.addEventListener("visibilitychange", () => {
  follow();
  refresh();
});
setInterval(tick, POLL_MS);
start();
