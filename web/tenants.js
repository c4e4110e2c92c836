// Tenants: what each is owed, may have at most and uses; and for administrators the figures and the
// tokens.

import * as api from "./api.js";
import { ask, choice, field, input } from "./dialog.js";
import { h, section, show, table } from "./dom.js";
import { ago, bytes, count, time } from "./format.js";
import { ledgerBar, ledgerLine } from "./ledger.js";
import { isAdmin } from "./session.js";
import { shareBar } from "./shares.js";

const number = (name, value) => input(name, { type: "number", min: "0", value: String(value) });

function editTenant(tenant, refresh) {
  const made = !tenant;
  const now = tenant || { name: "", weight: 1, guaranteed_slots: 0, limit_slots: 0 };
  ask({
    title: made ? "New tenant" : `Quota of ${now.name}`, yes: made ? "Create" : "Change",
    body: [
      made && field("Name", input("name", { required: true, pattern: "[a-z0-9][a-z0-9.\\-]*", maxlength: "63" })),
      field("Weight", number("weight", now.weight), "its part of what nobody is guaranteed"),
      field("Guaranteed slots", number("guaranteed_slots", now.guaranteed_slots || 0), "it gets this many whenever it asks"),
      field("Limit of slots", number("limit_slots", now.limit_slots || 0), "0 is none"),
    ].filter(Boolean),
    act: async (form) => {
      const figures = { name: now.name || form.name, weight: Number(form.weight), guaranteed_slots: Number(form.guaranteed_slots), limit_slots: Number(form.limit_slots) };
      await (made ? api.createTenant(figures) : api.changeTenant(figures));
      await refresh();
    },
  });
}

function newToken(tenants, refresh) {
  ask({
    title: "New token", yes: "Create",
    body: [
      field("Name", input("name", { required: true, maxlength: "63" }), "whom or what it is for"),
      field("Role", choice("role", ["member", "viewer", "operator", "admin", "agent"], "member")),
      field("Tenant", choice("tenant", tenants.map((t) => t.name), "default"), "members and viewers only"),
      field("Expires after", input("expires", { placeholder: "30d", value: "90d" }), "empty is never"),
      field("Uses", input("uses", { type: "number", min: "1", max: "1000000" }), "agents only: how many new nodes may join with it; empty is any number"),
    ],
    act: async (form) => {
      const tenant = ["member", "viewer"].includes(form.role) ? form.tenant : "";
      const uses = form.role === "agent" ? Number(form.uses || 0) : 0;
      const made = await api.createToken({ name: form.name, role: form.role, tenant, expires: form.expires, uses });
      await refresh();
      const copy = h("button", { type: "button", class: "quiet", onclick: async () => {
        await navigator.clipboard.writeText(made.plain);
        copy.textContent = "Copied";
      } }, "Copy");
      return [h("p", {}, "Keep it now: it is shown this once."), h("p", { class: "secret" }, h("code", {}, made.plain), copy)];
    },
  });
}

const revoke = (token, refresh) => ask({
  title: `Revoke ${token.name}?`, yes: "Revoke", danger: true,
  body: [h("p", {}, "Whoever uses it is out at once. It cannot be taken back.")],
  act: async () => {
    await api.revokeToken(token.id);
    await refresh();
  },
});

function tokenState(token) {
  if (Number(token.revoked_wall_ms)) return h("span", { class: "dim" }, "revoked ", ago(token.revoked_wall_ms));
  if (Number(token.expires_wall_ms) && Number(token.expires_wall_ms) < Date.now()) return h("span", { class: "dim" }, "expired ", ago(token.expires_wall_ms));
  const most = Number(token.uses_max || 0), left = most - Number(token.uses || 0);
  if (most && left <= 0) return h("span", { class: "dim" }, "used up");
  return h("span", {}, most ? `active, ${left} of ${most} uses left` : "active");
}

function tokenTable(tokens, tenants, refresh) {
  const live = tokens.filter((t) => !Number(t.revoked_wall_ms)), revoked = tokens.length - live.length;
  return section("Tokens", h("button", { class: "quiet", onclick: () => newToken(tenants, refresh) }, "New token"),
    table(["Name", "Role", "Tenant", "State", "Used", "Expires", "Created", "Actions"], live.map((token) => ({ key: token.id, cells: [
      token.name, token.role, token.tenant || "–", tokenState(token), ago(token.used_wall_ms), Number(token.expires_wall_ms) ? time(token.expires_wall_ms) : "never",
      time(token.created_wall_ms), h("button", { class: "quiet", "aria-label": `revoke ${token.name}`, onclick: () => revoke(token, refresh) }, "revoke"),
    ] })), "No tokens.", "Tokens"),
    revoked > 0 && h("p", { class: "dim" }, `${revoked} revoked: muster token list shows them.`));
}

// What a quota counts, by its name; those without a limit that can be reached are left out.
function quotaList(tenant) {
  const amount = (quota, value) => (quota.name.endsWith("_bytes") ? bytes(value) : count(value));
  const rows = (tenant.quotas || []).filter((quota) => quota.name !== "priority" && Number(quota.limit) > 0);
  return rows.length > 0 && h("details", {}, h("summary", {}, "Quotas"),
    h("dl", {}, rows.map((quota) => h("div", {}, h("dt", {}, quota.name.replaceAll("_", " ")), h("dd", {}, `${amount(quota, quota.used)} of ${amount(quota, quota.limit)}`)))));
}

function card(tenant, slots, refresh) {
  const facts = [["Weight", tenant.weight], ["Jobs", tenant.active_jobs || 0], ["Slots now", tenant.slots_used || 0], ["Recent use", Number(tenant.use || 0).toFixed(2)]];
  return h("article", { class: "card", "data-key": tenant.name },
    shareBar(tenant, slots),
    h("dl", {}, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    ledgerBar(tenant.ledger), ledgerLine(tenant.ledger), quotaList(tenant),
    isAdmin() && h("button", { class: "quiet", "aria-label": `change ${tenant.name}`, onclick: () => editTenant(tenant, refresh) }, "Edit quota"));
}

export function tenantsView(root) {
  const body = h("div");
  root.replaceChildren(h("h1", {}, "Tenants"), body);
  const view = {
    async refresh() {
      const [{ tenants = [] }, nodes, tokens] = await Promise.all([api.listTenants(), api.currentNodes(), isAdmin() ? api.listTokens() : null]);
      const slots = nodes.reduce((sum, n) => sum + (n.slots || 0), 0);
      show(body,
        section("Shares", isAdmin() && h("button", { class: "quiet", onclick: () => editTenant(null, view.refresh) }, "New tenant"),
          h("div", { class: "cards" }, tenants.map((tenant) => card(tenant, slots, view.refresh))),
          h("p", { class: "dim" }, "“Recent use” is the average number of slots that it used; use of a day ago counts half. Fair shares follow it.")),
        tokens && tokenTable(tokens.tokens || [], tenants, view.refresh));
    },
  };
  return view;
}
