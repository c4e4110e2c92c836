// Tenants: what each may have and uses; for admins their figures and the tokens that act for them.

import * as api from "./api.js";
import { age, h, show, table, time } from "./dom.js";

const field = (name, label, more = {}) => h("label", {}, `${label} `, h("input", { name, ...more }));
const number = (name, label, usual) => field(name, label, { type: "number", min: "0", placeholder: usual });

// A form that hands its fields to `send` and says what came of it.
function form(title, fields, send) {
  const note = h("p", { role: "status", "aria-live": "polite" });
  return h("form", { class: "small", onsubmit: async (event) => {
    event.preventDefault();
    try {
      note.className = "";
      note.textContent = await send(Object.fromEntries(new FormData(event.target)));
    } catch (error) {
      note.className = "error";
      note.textContent = [error.message, error.hint].filter(Boolean).join(": ");
    }
  } }, h("h3", {}, title), ...fields, h("button", {}, title), note);
}

const figures = (f) => ({ name: f.name, weight: Number(f.weight) || 1, guaranteed_slots: Number(f.guaranteed), limit_slots: Number(f.limit) });

function forms(refresh) {
  const setFigures = async (f) => {
    try {
      await api.setTenant(figures(f));
    } catch (error) {
      if (error.code !== "NOT_FOUND") throw error;
      await api.makeTenant(figures(f));
    }
    await refresh();
    return `${f.name} is set.`;
  };
  const makeToken = async (f) => {
    const { plain } = await api.makeToken({ name: f.name, role: f.role, tenant: f.tenant, expires: f.expires });
    await refresh();
    return `Shown this once: ${plain}`;
  };
  const roles = h("label", {}, "Role ", h("select", { name: "role" }, ["member", "viewer", "operator", "admin", "agent"].map((r) => h("option", {}, r))));
  return h("div", { class: "forms" },
    form("Set a tenant", [field("name", "Name", { required: true }), number("weight", "Weight", "1"), number("guaranteed", "Guaranteed slots", "0"), number("limit", "Limit", "none")], setFigures),
    form("Make a token", [field("name", "Name", { required: true }), roles, field("tenant", "Tenant"), field("expires", "Expires", { placeholder: "90d" })], makeToken));
}

function tokenRows(tokens, refresh) {
  return tokens.map((token) => [
    token.name, token.role, token.tenant || "–", age(token.created_wall_ms), Number(token.expires_wall_ms) ? time(token.expires_wall_ms) : "never",
    Number(token.used_wall_ms) ? `${age(token.used_wall_ms)} ago` : "never",
    Number(token.revoked_wall_ms) ? "revoked" : h("button", { class: "quiet", onclick: async () => {
      if (!confirm(`Revoke ${token.name}? Who uses it is out at once.`)) return;
      await api.revokeToken(token.id);
      await refresh();
    } }, `revoke ${token.name}`),
  ]);
}

export function tenantsView(root) {
  const body = h("div"), tokens = h("section"), change = h("section");
  let role = null;
  const view = {
    async refresh() {
      role ??= (await api.whoAmI()).role;
      const { tenants = [] } = await api.listTenants();
      show(body, table(["Tenant", ">Weight", ">Slots in use", ">Guaranteed", ">Limit", ">Jobs"],
        tenants.map((t) => [t.name, t.weight, t.slots_used || 0, t.guaranteed_slots || 0, t.limit_slots || "none", t.active_jobs || 0]), "No tenants."));
      if (role !== "admin") return;
      if (!change.childElementCount) change.append(forms(view.refresh));
      show(tokens, [h("h2", {}, "Tokens"), table(["Name", "Role", "Tenant", ">Age", "Expires", "Used", ""], tokenRows((await api.listTokens()).tokens || [], view.refresh), "No tokens.")]);
    },
  };
  root.replaceChildren(h("h1", {}, "Tenants"), body, tokens, change);
  return view;
}
